# An agent without a model. It understands requests of the form `replace OLD by NEW`, where both are words, and instructions
# of the form `FILE: replace OLD by NEW`, and really does what they say. A request may have several of them, and where two
# changed the same line it keeps both changes. Try it:
#
#   orchestrator run change --input request='replace colour by color, and replace grey by gray'
set -eu

prompt=$(cat)
# What is above the last heading is about the agent, not about what it is asked.
asked=$(printf '%s\n' "$prompt" | sed '1,/^# What you are asked$/d')

# Text as a JSON string.
json() {
  printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g; s/	/\\t/g' | awk 'BEGIN { printf "\"" } { printf "%s%s", sep, $0; sep = "\\n" } END { printf "\"" }'
}

# Lines as a JSON list of strings.
list() {
  printf '['
  sep=
  while IFS= read -r line; do
    if [ -n "$line" ]; then printf '%s%s' "$sep" "$(json "$line")"; sep=,; fi
  done
  printf ']'
}

event() { printf '{"type":"%s"%s}\n' "$1" "$2"; }
tool() { event tool ",\"name\":\"$1\",\"state\":\"$2\",\"input\":$(json "$3")"; }
output() { event output ",\"value\":$1"; }
# A script costs nothing; it counts all the same, so that budgets have something to count.
used() { event usage ",\"input\":${#prompt},\"output\":40,\"calls\":1"; }
fail() { event error ",\"family\":\"unknown\",\"message\":$(json "$1")"; exit 1; }

# The two words of each request in the text, one pair a line.
requests() {
  printf '%s\n' "$asked" | grep -o 'replace [A-Za-z_][A-Za-z_]* by [A-Za-z_][A-Za-z_]*' | cut -d ' ' -f 2,4 | awk '!seen[$0]++'
}
# Files that have a word, without those that tell what to do.
files_with() { git grep -lw -e "$1" -- "$2" ':!agents' ':!pipelines' || true; }

understand() {
  words=$(requests)
  if [ -z "$words" ]; then
    event blocked ',"why":"I only understand requests of the form: replace OLD by NEW"'
    exit 0
  fi
}

plan() {
  understand
  # Only the sources, as people who are in a hurry do it; the reviewer looks at the rest.
  parts= sep=
  while read -r old new; do
    tool grep finished "$old"
    for file in $(files_with "$old" src); do
      parts="$parts$sep{\"title\":$(json "$file"),\"instructions\":$(json "$file: replace $old by $new")}"
      sep=,
    done
  done <<WORDS
$words
WORDS
  if [ -z "$parts" ]; then
    event blocked ",\"why\":$(json "no file below src has a word that is to be replaced")"
    exit 0
  fi
  used
  output "{\"parts\":[$parts]}"
}

# One word a line, and what is between two words; a line's end is a line with a dot. `glue` puts them together again.
cut_up() { sed 's/[A-Za-z0-9_][A-Za-z0-9_]*/\n=&\n=/g; s/^/=/; s/$/\n./'; }
glue() { awk '/^=/ { printf "%s", substr($0, 2); next } { print "" }'; }

# Merges word by word what could not be merged line by line.
resolve() {
  mkdir -p "$ORC_TEMP"
  resolved=
  for file in $1; do
    tool merge started "$file"
    side=1
    for name in base ours theirs; do
      git show ":$side:$file" > "$ORC_TEMP/whole" || fail "one side does not have $file"
      cut_up < "$ORC_TEMP/whole" > "$ORC_TEMP/$name"
      side=$((side + 1))
    done
    if ! git merge-file -q "$ORC_TEMP/ours" "$ORC_TEMP/base" "$ORC_TEMP/theirs"; then
      fail "both sides changed the same word of $file"
    fi
    glue < "$ORC_TEMP/ours" > "$file"
    tool merge finished "$file"
    resolved="$resolved$file
"
  done
  used
  event message ",\"text\":$(json "Kept both changes of: $(printf '%s' "$resolved" | tr '\n' ' ')")"
  output "{\"changed\":$(printf '%s' "$resolved" | list),\"note\":\"kept both changes\"}"
}

code() {
  # A merge that somebody is to finish.
  unmerged=$(git diff --name-only --diff-filter=U)
  if [ -n "$unmerged" ]; then
    resolve "$unmerged"
    return
  fi
  changed=
  # One instruction a line; everything else is talk.
  instructions=$(printf '%s\n' "$asked" | sed -n 's/^\([^ ]*\): replace \([A-Za-z_]*\) by \([A-Za-z_]*\)$/\1 \2 \3/p')
  if [ -z "$instructions" ]; then fail "there is no instruction of the form FILE: replace OLD by NEW"; fi
  while read -r file old new; do
    tool edit started "$file"
    if [ ! -f "$file" ]; then fail "there is no file $file"; fi
    if head -n 3 "$file" | grep -q 'do not edit'; then fail "$file is generated: do not edit"; fi
    # A word ends where something begins that can't be part of one.
    sed "s/\(^\|[^A-Za-z0-9_]\)$old\($\|[^A-Za-z0-9_]\)/\1$new\2/g" "$file" > "$file.new"
    cat "$file.new" > "$file"
    rm "$file.new"
    tool edit finished "$file"
    changed="$changed$file
"
  done <<INSTRUCTIONS
$instructions
INSTRUCTIONS
  used
  event message ",\"text\":$(json "Changed: $(printf '%s' "$changed" | tr '\n' ' ')")"
  output "{\"changed\":$(printf '%s' "$changed" | list),\"note\":\"replaced words\"}"
}

review() {
  understand
  findings=$(printf '%s\n' "$words" | while read -r old new; do
    files_with "$old" . | sed "s/\$/: replace $old by $new/"
  done)
  tool grep finished "$words"
  verdict=pass
  if [ -n "$findings" ]; then verdict=fail; fi
  if printf '%s\n' "$asked" | grep -q '^Tests: failed'; then verdict=fail; fi
  used
  event message ",\"text\":$(json "verdict: $verdict")"
  output "{\"verdict\":\"$verdict\",\"findings\":$(printf '%s\n' "$findings" | list)}"
}

investigate() {
  tool grep finished 'randomness and time'
  suspects=$(git grep -nE 'SEED|RANDOM|date \+|sleep [0-9]' -- . ':!agents' ':!pipelines' | cut -d: -f1,2 || true)
  used
  output "{\"suspects\":$(printf '%s\n' "$suspects" | list),\"why\":\"these lines read a seed, a clock or a random number\"}"
}

judge() {
  urgent= later=
  while read -r name current latest rest; do
    case "$current $latest" in
      [0-9]*.*' '[0-9]*.*)
        if [ "${current%%.*}" = "${latest%%.*}" ]; then later="$later$name
"; else urgent="$urgent$name
"; fi ;;
    esac
  done <<LINES
$asked
LINES
  used
  output "{\"urgent\":$(printf '%s' "$urgent" | list),\"later\":$(printf '%s' "$later" | list)}"
}

event progress ',"text":"read what is asked"'
case "$ORC_AGENT" in
  planner) plan ;;
  coder) code ;;
  reviewer) review ;;
  investigator) investigate ;;
  librarian) judge ;;
  *) fail "nothing is scripted for the agent $ORC_AGENT" ;;
esac
