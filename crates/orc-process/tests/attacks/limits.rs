//! Attempts at the machine's resources, and at outliving the run.

use orc_domain::confine::ViolationKind::{Disk, Memory, Processes};

use crate::attempt::{Attempt, perl, sh};

const MEBI: u64 = 1024 * 1024;

pub(crate) const ATTEMPTS: &[Attempt] = &[
    perl(
        "multiplies without end",
        r#"pipe(my $read, my $write); my $count = 0;
        while ($count < 2000) { my $pid = fork; last unless defined $pid; if (!$pid) { close $write; sysread $read, my $x, 1; POSIX::_exit(0) } $count++ }
        tried 'fork', $count >= 2000; tell_it 'count', $count > 64, 'few';
        # As long as somebody who looks now and then needs to see it.
        select(undef, undef, undef, 5); close $write; 1 while wait > 0;"#,
    )
    .shape(|confinement, _| confinement.limits.processes = 64)
    .refused(&["fork: EAGAIN", "count: few"])
    .seen(&[(Processes, "more than ")]),
    sh("multiplies as shells do", r#"b() { b | b & wait; }; echo refused bomb: lit; (ulimit -t 5; b) 2>/dev/null; echo refused end: reached"#)
        .shape(|confinement, _| confinement.limits.processes = 32)
        .ends_somehow()
        .refused(&["bomb: lit"])
        .seen_together(&[(Processes, "more than ")]),
    perl(
        "leaves many dead behind",
        r#"my $count = 0; while ($count < 2000) { my $pid = fork; last unless defined $pid; POSIX::_exit(0) unless $pid; $count++ }
        tried 'fork', $count >= 2000; select(undef, undef, undef, 5);"#,
    )
    .shape(|confinement, _| confinement.limits.processes = 64)
    .refused(&["fork: EAGAIN"])
    .seen(&[(Processes, "more than ")]),
    perl(
        "takes all memory",
        r#"print "refused memory: asked\n"; my @held; for (1 .. 100) { push @held, 'x' x (8 << 20) } print "BREACH memory\n";"#,
    )
    .shape(|confinement, _| confinement.limits.memory_bytes = 256 * MEBI)
    .ends_somehow()
    .refused(&["memory: asked"])
    .seen_together(&[(Memory, "more than 256 MiB")]),
    perl(
        "takes all memory with many processes",
        r#"print "refused memory: asked\n"; pipe(my $read, my $write); my $held = 0; $SIG{CHLD} = sub { POSIX::_exit(0) };
        for (1 .. 16) { my $pid = fork; next if $pid; die unless defined $pid; my $mine = 'x' x (32 << 20); syswrite $write, '1'; sleep 50; POSIX::_exit(0) }
        # Where nobody bounds all of them together, they are ended from outside, soon.
        close $write; while (sysread $read, my $byte, 1) { last if ++$held == 16 } sleep 40 if $held == 16; print "BREACH memory\n" if $held == 16;"#,
    )
    .shape(|confinement, _| confinement.limits.memory_bytes = 256 * MEBI)
    .ends_somehow()
    .refused(&["memory: asked"])
    .seen(&[(Memory, "more than 256 MiB")]),
    perl(
        "keeps memory in files that have no name",
        r#"print "refused memory: asked\n"; my $name = "x\0"; my $chunk = 'x' x (1 << 20); my $written = 0; my @files;
        OUTER: for (1 .. 60) { my $number = syscall($call{memfd_create}, $name, 0); last if $number < 0;
            open(my $file, '>&=', $number) or last; push @files, $file;
            for (1 .. 8) { defined syswrite($file, $chunk) or last OUTER; $written++ } }
        if ($written > 256) { select(undef, undef, undef, 40); print "BREACH memory: $written MiB\n" }"#,
    )
    .shape(|confinement, _| confinement.limits.memory_bytes = 256 * MEBI)
    .ends_somehow()
    .refused(&["memory: asked"])
    .seen(&[(Memory, "more than 256 MiB")]),
    sh(
        "keeps memory in directories in memory",
        r#"echo refused memory: asked; for one in /tmp /dev/shm /orc/run; do head -c 150000000 /dev/zero >$one/big 2>/dev/null; done
        size=$(du -sm /tmp /dev/shm /orc/run | awk '{ sum += $1 } END { print sum }'); [ "$size" -gt 280 ] && echo "BREACH $size MiB"; true"#,
    )
    .shape(|confinement, _| confinement.limits.memory_bytes = 256 * MEBI)
    .ends_somehow()
    .refused(&["memory: asked"]),
    perl(
        "fills the disk through its copy",
        r#"print "refused disk: asked\n"; my $chunk = 'x' x (1 << 20); my $written = 0;
        for my $number (1 .. 16) { open(my $file, '>', "$ENV{WORK}/big$number") or last; for (1 .. 8) { defined syswrite($file, $chunk) and $written++ } }
        # It is stopped from outside, soon.
        select(undef, undef, undef, 40); print "BREACH disk: $written MiB\n";"#,
    )
    .shape(|confinement, _| confinement.limits.disk_bytes = 8 * MEBI)
    .ends_somehow()
    .refused(&["disk: asked"])
    .seen(&[(Disk, "more than 8 MiB")]),
    perl(
        "fills the disk through its home",
        r#"print "refused disk: asked\n"; my $chunk = 'x' x (1 << 20);
        for my $number (1 .. 4) { open(my $file, '>', "$ENV{HOME}/big$number") or last; for (1 .. 8) { syswrite($file, $chunk) } unlink "$ENV{HOME}/big$number" if $number % 2 }
        select(undef, undef, undef, 40); print "BREACH disk\n";"#,
    )
    .shape(|confinement, _| confinement.limits.disk_bytes = 8 * MEBI)
    .ends_somehow()
    .refused(&["disk: asked"])
    .seen(&[(Disk, "more than 8 MiB")]),
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
