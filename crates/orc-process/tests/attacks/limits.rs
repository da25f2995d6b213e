//! Attempts at the machine's resources, and at outliving the run.

use crate::attempt::{Attempt, perl, sh};

const MEBI: u64 = 1024 * 1024;

pub(crate) const ATTEMPTS: &[Attempt] = &[
    sh("makes a file with a hole", r#"truncate -s 5G "$WORK/hole"; echo refused hole: made; rm "$WORK/hole""#)
        .shape(|confinement, _| confinement.limits.disk_bytes = 64 * MEBI)
        .refused(&["hole: made"]),
    perl(
        "opens files without end",
        r#"my @held; while (@held < 5000) { open(my $file, '<', '/dev/null') or last; push @held, $file } tried 'open', @held >= 5000;
        tell_it 'count', @held > 64, 'few'; POSIX::close($_) for 3 .. 10; tried 'raise', system('ulimit -n 100000 2>/dev/null') == 0;"#,
    )
    .shape(|confinement, _| confinement.limits.open_files = 64)
    .refused(&["open: EMFILE", "count: few"]),
    sh(
        "outlives its run",
        r#"mkfifo "$WORK/gate"; for how in setsid nohup "setsid setsid"; do
            (trap '' TERM HUP INT; $how sh -c 'read line <"$WORK/gate"; echo alive >"$WORK/alive"' >/dev/null 2>&1 & ) & done
        perl -e 'fork and exit; setpgrp; fork and exit; $SIG{$_} = "IGNORE" for keys %SIG; open my $f, "<", "$ENV{WORK}/gate"; <$f>' &
        env -i WORK="$WORK" setsid sh -c 'read line <"$WORK/gate"' >/dev/null 2>&1 & echo refused all: started"#,
    )
    .refused(&["all: started"]),
    sh("leaves something that is stopped", r#"setsid sh -c 'kill -STOP $$' & sh -c 'kill -STOP $$' & echo refused stop: asked"#)
        .refused(&["stop: asked"]),
    sh("prints without end", "echo refused flood: begun; head -c 50000000 /dev/zero | tr '\\0' 'x'; yes | head -n 1000000")
        .refused(&["flood: begun"]),
    perl(
        "makes many files and deep directories",
        r#"for (1 .. 20000) { open(my $file, '>', "$ENV{WORK}/kept/$_") or last } my $depth = 0;
        chdir $ENV{WORK}; while ($depth < 3000) { mkdir 'd' or last; chdir 'd' or last; $depth++ } tell_it 'files', 0, 'made';"#,
    )
    .refused(&["files: made"]),
];
