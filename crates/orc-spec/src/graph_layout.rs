//! Where the boxes of a drawing stand: in rows by their longest way from a beginning, in each row so that arrows cross little.
//!
//! Arrows that span several rows get a place of their own in each row between, so no arrow runs through a box. Whole
//! numbers only: the same pipeline gives the same drawing on every machine. Never looks at what is in a box.

use std::collections::BTreeMap;

/// Space between two boxes of a row.
const GAP: i64 = 28;
/// Space between two rows.
const ROW_GAP: i64 = 44;
/// Space above the first row of a later part, for its frame and title.
const PART_GAP: i64 = 40;
/// What an arrow takes in a row that it passes.
const LANE: i64 = 12;
/// Passes over all rows, alternately down and up. More change nothing that can be seen.
const SWEEPS: usize = 12;
/// Barycentres are compared in thousandths of a place.
const FINE: usize = 1000;

/// A box to be placed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) width: i64,
    pub(crate) height: i64,
    /// Which part it belongs to; the rows of a part stand below all rows of the parts before.
    pub(crate) part: usize,
}

/// A box that was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) x: i64,
    pub(crate) y: i64,
    pub(crate) width: i64,
    pub(crate) height: i64,
}

/// The whole drawing.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// In the order of the sizes.
    pub(crate) boxes: Vec<Place>,
    /// In the order of the arrows: points from the lower edge of one box to the upper edge of another; two at a time are a
    /// way straight down, and between those pairs the arrow may bend.
    pub(crate) arrows: Vec<Vec<(i64, i64)>>,
    pub(crate) width: i64,
    pub(crate) height: i64,
}

/// Places `sizes`, with `arrows` from one box to another that form no circle. What is part of one is drawn without it.
pub(crate) fn place(sizes: &[Size], arrows: &[(usize, usize)]) -> Layout {
    let rows_of = rows_of(sizes, arrows);
    let mut grid = Grid::new(sizes, arrows, &rows_of);
    grid.order();
    grid.spread();
    grid.centre(sizes);
    grid.finish(sizes, arrows, &rows_of)
}

/// The row of each box: one below the lowest that it waits for.
fn rows_of(sizes: &[Size], arrows: &[(usize, usize)]) -> Vec<usize> {
    let mut waits = vec![0_usize; sizes.len()];
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); sizes.len()];
    for (from, to) in arrows {
        waits[*to] += 1;
        next[*from].push(*to);
    }
    let mut rows = vec![0; sizes.len()];
    let mut ready: Vec<usize> = (0..sizes.len()).filter(|at| waits[*at] == 0).collect();
    while let Some(at) = ready.pop() {
        for to in &next[at] {
            rows[*to] = rows[*to].max(rows[at] + 1);
            waits[*to] -= 1;
            if waits[*to] == 0 {
                ready.push(*to);
            }
        }
    }
    let parts: std::collections::BTreeSet<usize> = sizes.iter().map(|size| size.part).collect();
    let mut first = 0;
    for part in parts {
        let members: Vec<usize> = (0..sizes.len()).filter(|at| sizes[*at].part == part).collect();
        let least = members.iter().map(|at| rows[*at]).min().unwrap_or(0);
        members.iter().for_each(|at| rows[*at] = rows[*at] - least + first);
        first = members.iter().map(|at| rows[*at] + 1).max().unwrap_or(first);
    }
    rows
}

/// Rows of cells: boxes, and lanes of arrows that pass.
struct Grid {
    rows: Vec<Vec<usize>>,
    widths: Vec<i64>,
    /// Cells of the row above and of the row below that a cell is connected with.
    above: Vec<Vec<usize>>,
    below: Vec<Vec<usize>>,
    /// Cells of each arrow, both boxes included.
    ways: Vec<Vec<usize>>,
    /// Twice the middle of each cell.
    middles: Vec<i64>,
}

impl Grid {
    fn new(sizes: &[Size], arrows: &[(usize, usize)], rows_of: &[usize]) -> Self {
        let mut rows = vec![Vec::new(); rows_of.iter().max().map_or(0, |last| last + 1)];
        (0..sizes.len()).for_each(|at| rows[rows_of[at]].push(at));
        let mut widths: Vec<i64> = sizes.iter().map(|size| size.width).collect();
        let mut ways = Vec::with_capacity(arrows.len());
        for (from, to) in arrows {
            let mut way = vec![*from];
            for row in rows.iter_mut().take(rows_of[*to]).skip(rows_of[*from] + 1) {
                row.push(widths.len());
                way.push(widths.len());
                widths.push(LANE);
            }
            way.push(*to);
            ways.push(way);
        }
        let (mut above, mut below) = (vec![Vec::new(); widths.len()], vec![Vec::new(); widths.len()]);
        for pair in ways.iter().flat_map(|way| way.windows(2)) {
            above[pair[1]].push(pair[0]);
            below[pair[0]].push(pair[1]);
        }
        let middles = vec![0; widths.len()];
        Self { rows, widths, above, below, ways, middles }
    }

    /// Sorts each row by the middle of what its cells are connected with, and keeps the best of all tries.
    fn order(&mut self) {
        let mut best = (self.crossings(), self.rows.clone());
        for sweep in 0..SWEEPS {
            let down = sweep % 2 == 0;
            let count = self.rows.len();
            for step in 1..count {
                let (row, other) = if down { (step, step - 1) } else { (count - 1 - step, count - step) };
                let places: BTreeMap<usize, usize> =
                    self.rows[other].iter().enumerate().map(|(place, cell)| (*cell, place)).collect();
                let neighbours = if down { &self.above } else { &self.below };
                let middle = |(place, cell): (usize, &usize)| {
                    let near: Vec<usize> =
                        neighbours[*cell].iter().filter_map(|near| places.get(near).copied()).collect();
                    if near.is_empty() { place * FINE } else { near.iter().sum::<usize>() * FINE / near.len() }
                };
                let mut keyed: Vec<(usize, usize)> =
                    self.rows[row].iter().enumerate().map(|at| (middle(at), *at.1)).collect();
                keyed.sort_by_key(|(key, _)| *key);
                self.rows[row] = keyed.into_iter().map(|(_, cell)| cell).collect();
            }
            let crossings = self.crossings();
            if crossings < best.0 {
                best = (crossings, self.rows.clone());
            }
        }
        self.rows = best.1;
    }

    /// How often two arrows cross between two rows.
    fn crossings(&self) -> usize {
        let pairs = self.rows.windows(2).map(|rows| {
            let places: BTreeMap<usize, usize> =
                rows[1].iter().enumerate().map(|(place, cell)| (*cell, place)).collect();
            let ends = rows[0].iter().map(|cell| {
                let mut ends: Vec<usize> = self.below[*cell].iter().filter_map(|to| places.get(to).copied()).collect();
                ends.sort_unstable();
                ends
            });
            let mut seen: Vec<usize> = Vec::new();
            let mut crossings = 0;
            for ends in ends {
                for end in &ends {
                    crossings += seen.len() - seen.partition_point(|place| place <= end);
                }
                for end in ends {
                    let at = seen.partition_point(|place| *place <= end);
                    seen.insert(at, end);
                }
            }
            crossings
        });
        pairs.sum()
    }

    /// Moves cells below and above what they are connected with, as far as their neighbours in the row allow.
    fn spread(&mut self) {
        for at in 0..self.rows.len() {
            let row = self.rows[at].clone();
            let mut edge = 0;
            for cell in row {
                self.middles[cell] = 2 * edge + self.widths[cell];
                edge += self.widths[cell] + GAP;
            }
        }
        for sweep in 0..SWEEPS {
            for step in 0..self.rows.len() {
                let at = if sweep % 2 == 0 { step } else { self.rows.len() - 1 - step };
                self.settle(at);
            }
        }
    }

    /// Puts the parts below each other's middle: nothing connects them that would.
    fn centre(&mut self, sizes: &[Size]) {
        let mut parts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for row in &self.rows {
            let part = row.iter().filter_map(|cell| sizes.get(*cell)).map(|size| size.part).min().unwrap_or(0);
            parts.entry(part).or_default().extend(row);
        }
        // Twice the middle of a part, and its width.
        let extent = |cells: &[usize]| {
            let left = cells.iter().map(|cell| self.middles[*cell] - self.widths[*cell]).min().unwrap_or(0);
            let right = cells.iter().map(|cell| self.middles[*cell] + self.widths[*cell]).max().unwrap_or(0);
            ((left + right) / 2, right - left)
        };
        let extents: Vec<(i64, i64)> = parts.values().map(|cells| extent(cells)).collect();
        let Some((middle, _)) = extents.iter().max_by_key(|(_, width)| *width).copied() else { return };
        for (cells, (own, _)) in parts.values().zip(&extents) {
            cells.iter().for_each(|cell| self.middles[*cell] += middle - own);
        }
    }

    fn settle(&mut self, at: usize) {
        let row = self.rows[at].clone();
        let wish = |cell: usize| {
            let near: Vec<i64> =
                self.above[cell].iter().chain(&self.below[cell]).map(|near| self.middles[*near]).collect();
            let count = i64::try_from(near.len()).unwrap_or(1);
            if near.is_empty() { self.middles[cell] } else { near.iter().sum::<i64>() / count }
        };
        let wishes: Vec<i64> = row.iter().map(|cell| wish(*cell)).collect();
        let apart = |one: usize, two: usize| self.widths[row[one]] + self.widths[row[two]] + 2 * GAP;
        // Both keep the distances, so their middle does.
        let (mut right, mut left) = (wishes.clone(), wishes);
        for place in 1..row.len() {
            right[place] = right[place].max(right[place - 1] + apart(place - 1, place));
        }
        for place in (1..row.len()).rev() {
            left[place - 1] = left[place - 1].min(left[place] - apart(place - 1, place));
        }
        for (place, cell) in row.iter().enumerate() {
            self.middles[*cell] = (right[place] + left[place]).div_euclid(2);
        }
    }

    fn finish(&self, sizes: &[Size], arrows: &[(usize, usize)], rows_of: &[usize]) -> Layout {
        let left = |cell: usize| (self.middles[cell] - self.widths[cell]).div_euclid(2);
        let first = (0..self.widths.len()).map(left).min().unwrap_or(0);
        let (mut tops, mut y, mut part) = (Vec::new(), 0, None);
        for row in &self.rows {
            let here = row.iter().filter_map(|cell| sizes.get(*cell)).map(|size| size.part).min();
            if part.is_some() && here != part {
                y += PART_GAP;
            }
            part = here;
            let height = row.iter().filter_map(|cell| sizes.get(*cell)).map(|size| size.height).max().unwrap_or(0);
            tops.push((y, y + height));
            y += height + ROW_GAP;
        }
        let middle = |cell: usize| left(cell) - first + self.widths[cell] / 2;
        let place = |at: usize| Place {
            x: left(at) - first,
            y: tops[rows_of[at]].0,
            width: sizes[at].width,
            height: sizes[at].height,
        };
        let boxes: Vec<Place> = (0..sizes.len()).map(place).collect();
        let way = |((from, to), way): (&(usize, usize), &Vec<usize>)| {
            let mut points = vec![(middle(*from), boxes[*from].y + boxes[*from].height)];
            points.push((middle(*from), tops[rows_of[*from]].1));
            for (passed, cell) in way.iter().enumerate().take(way.len().saturating_sub(1)).skip(1) {
                let (top, bottom) = tops[rows_of[*from] + passed];
                points.extend([(middle(*cell), top), (middle(*cell), bottom)]);
            }
            points.push((middle(*to), boxes[*to].y));
            points
        };
        Layout {
            arrows: arrows.iter().zip(&self.ways).map(way).collect(),
            width: (0..self.widths.len()).map(|cell| left(cell) - first + self.widths[cell]).max().unwrap_or(0),
            height: (y - ROW_GAP).max(0),
            boxes,
        }
    }
}

#[cfg(test)]
mod tests;
