//! `man`: manual pages, made from the same description of the command line that reads it.

use std::path::Path;

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use crate::args::{Arguments, ManArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, unavailable};
use crate::output::{self, say};

pub(crate) fn run(context: &Context, args: &ManArgs) -> CommandResult {
    let mut command = Arguments::command();
    command.build();
    let Some(directory) = &args.dir else {
        let page = String::from_utf8(page(command)?);
        output::text(&page.map_err(|error| unavailable("cannot print the manual page").because(error))?)?;
        return Ok(Exit::Success);
    };
    let target = context.cwd.join(directory);
    let failed = |error| unavailable(format!("cannot write manual pages to `{}`", directory.display())).because(error);
    std::fs::create_dir_all(&target).map_err(failed)?;
    let mut written = 0;
    write_all(command, "orchestrator", &target, &mut written)?;
    say(&format!("wrote {written} manual pages to {}", directory.display()));
    Ok(Exit::Success)
}

/// A page for the command and one for each of its own commands that is not hidden: `orchestrator-flows-list.1`.
fn write_all(command: Command, name: &str, target: &Path, written: &mut u32) -> CommandResult<()> {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_all(sub.clone(), &format!("{name}-{}", sub.get_name()), target, written)?;
    }
    let file = target.join(format!("{name}.1"));
    let shown = file.display().to_string();
    let page = page(command.display_name(name.to_owned()))?;
    std::fs::write(&file, page).map_err(|error| unavailable(format!("cannot write `{shown}`")).because(error))?;
    *written += 1;
    Ok(())
}

fn page(command: Command) -> CommandResult<Vec<u8>> {
    // Into memory first: the generator knows nothing of a reader that went away.
    let mut page = Vec::new();
    let rendered = Man::new(command).render(&mut page);
    rendered.map_err(|error| unavailable("cannot make the manual page").because(error))?;
    page.extend_from_slice(b".SH \"EXIT STATUS\"\n");
    for exit in Exit::ALL {
        page.extend_from_slice(format!(".TP\n\\fB{}\\fR\n{}\n", exit.code(), exit.meaning()).as_bytes());
    }
    Ok(page)
}
