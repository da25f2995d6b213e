//! Attempts at the machine and its other processes: through /proc, devices, signals, and system calls.

use orc_domain::confine::ViolationKind::Syscall;

use crate::attempt::{Attempt, perl, sh};

pub(crate) const ATTEMPTS: &[Attempt] = &[
    sh(
        "reads environments of others",
        r#"tries first cat /proc/1/environ; tries victim cat "/proc/$VICTIM_PID/environ"
        for one in /proc/[0-9]*/environ; do grep -qa canary "$one" 2>/dev/null && echo "BREACH $one"; done
        same parent 1 "$(awk '/^PPid/ { print $2 }' </proc/$$/status)"; echo refused all: looked"#,
    )
    .refused(&["first: Permission", "victim: No such", "all: looked"]),
    sh("reads the environment of another process", r#"tries victim cat "/proc/$VICTIM_PID/environ""#)
        .refused(&["victim: No such"])
        .works_outside(),
    perl(
        "counts the processes that it sees",
        r#"opendir(my $all, '/proc') or die; my @seen = sort { $a <=> $b } grep { /^\d+$/ } readdir $all;
        tell_it 'processes', join(' ', @seen) ne "1 $$", 'two'; tell_it 'parent', getppid() != 1, 'first';"#,
    )
    .refused(&["processes: two", "parent: first"]),
    sh(
        "looks into the first process",
        "for one in mem maps fd cwd root exe auxv stack syscall io smaps pagemap ns/mnt personality; do
            if [ -d /proc/1/$one ] || [ -L /proc/1/$one ]; then tries $one ls -A /proc/1/$one/
            else tries $one cat /proc/1/$one; fi; done; tries write writes /proc/1/mem; tries tasks cat /proc/1/task/1/environ",
    )
    .refused(&[
        "mem: Permission",
        "maps: Permission",
        "fd: Permission",
        "cwd: Permission",
        "root: Permission",
        "auxv: Permission",
        "write: Permission",
        "tasks: Permission",
    ]),
    perl(
        "has inherited something open",
        r#"opendir(my $all, '/proc/self/fd') or die; my @open = sort { $a <=> $b } grep { /^\d+$/ } readdir $all;
        my $own = fileno $all; @open = grep { $_ != $own } @open; tell_it 'numbers', "@open" ne '0 1 2', 'three';
        for (0 .. 2) { my $where = readlink "/proc/self/fd/$_"; tell_it "number-$_", $where !~ m{^(pipe:|/dev/null)}, $where }"#,
    )
    .refused(&["numbers: three", "number-0: /dev/null", "number-1: pipe", "number-2: pipe"]),
    perl(
        "kills a process outside",
        r#"tried 'victim', kill('KILL', $ENV{VICTIM_PID}); tried 'outer', kill(0, $ENV{OUTER_PID});"#,
    )
    .refused(&["victim: ESRCH", "outer: ESRCH"]),
    perl("kills everything", r#"kill('KILL', -1); tell_it 'all', 0, 'survived';"#).refused(&["all: survived"]),
    perl(
        "kills the first process",
        r#"for my $signal (qw(KILL TERM STOP INT HUP ABRT SEGV TSTP)) { kill($signal, 1) }
        open(my $status, '<', '/proc/1/status') or die; my ($state) = map { /^State:\s+(\S)/ } <$status>;
        tell_it 'first', scalar($state =~ /[TZX]/), 'lives';"#,
    )
    .refused(&["first: lives"]),
    perl(
        "traces processes",
        r#"my $buffer = "\0" x 64; my $vector = pack('P L! ', $buffer, 64) x 1; my $there = pack('L! L!', 4096, 64);
        my $answer = syscall($call{ptrace}, 16, 1, 0, 0); tried 'first', $answer >= 0;
        $answer = syscall($call{ptrace}, 16, $ENV{VICTIM_PID} + 0, 0, 0); tried 'victim', $answer >= 0;
        call 'process_vm_readv', 1, $vector, 1, $there, 1, 0; call 'process_vm_writev', 1, $vector, 1, $there, 1, 0;
        call 'kcmp', 1, $$, 0, 0, 0;"#,
    )
    .refused(&[
        "first: EPERM",
        "victim: EPERM|ESRCH",
        "process_vm_readv: EPERM",
        "process_vm_writev: EPERM",
        "kcmp: EPERM|ENOSYS",
    ])
    .seen(&[(Syscall, "ptrace"), (Syscall, "process_vm_readv"), (Syscall, "process_vm_writev"), (Syscall, "kcmp")]),
    perl(
        "takes descriptors of the first process",
        r#"my $first = syscall($call{pidfd_open}, 1, 0);
        for my $number (0 .. 5) { my $answer = syscall($call{pidfd_getfd}, $first, $number, 0); tried "number-$number", $answer >= 0 }
        my $answer = syscall($call{pidfd_open}, $ENV{VICTIM_PID} + 0, 0); tried 'victim', $answer >= 0;"#,
    )
    .refused(&["number-0: EPERM", "number-3: EPERM|EBADF", "victim: ESRCH|EINVAL"])
    .seen(&[(Syscall, "pidfd_getfd")]),
    perl(
        "uses the keys of the kernel",
        r#"my ($type, $name, $value) = ("user\0", "door\0", 'secret');
        call 'add_key', $type, $name, $value, 6, -3; call 'request_key', $type, $name, 0, -3; call 'keyctl', 0, -3, 1;
        "#,
    )
    .refused(&["add_key: EPERM|ENOSYS", "request_key: EPERM|ENOSYS", "keyctl: EPERM|ENOSYS"])
    .seen(&[(Syscall, "add_key"), (Syscall, "request_key"), (Syscall, "keyctl")])
    .works_outside(),
    perl(
        "makes namespaces",
        r#"for my $kind ([user => 0x10000000], [mount => 0x20000], [network => 0x40000000], [process => 0x20000000], [ipc => 0x8000000],
            [uts => 0x4000000], [group => 0x2000000], [time => 0x80]) {
            my $answer = syscall($call{unshare}, $kind->[1]); tried $kind->[0], $answer >= 0 }
        my $answer = syscall($call{clone}, 0x10000000 | 17, 0, 0, 0, 0); POSIX::_exit(0) if $answer == 0; tried 'clone', $answer >= 0;
        my $arguments = pack('Q11', 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0);
        $answer = syscall($call{clone3}, $arguments, 88); POSIX::_exit(0) if $answer == 0; tried 'clone3', $answer >= 0;"#,
    )
    .refused(&[
        "user: EPERM|ENOSPC",
        "mount: EPERM",
        "network: EPERM",
        "process: EPERM",
        "ipc: EPERM",
        "uts: EPERM",
        "group: EPERM",
        "time: EPERM",
        "clone: EPERM|ENOSPC",
        "clone3: ENOSYS|EPERM",
    ])
    .seen(&[(Syscall, "unshare"), (Syscall, "clone")]),
    sh(
        "makes a box in the box",
        "tries bwrap bwrap --ro-bind / / true; tries user bwrap --unshare-user --ro-bind / / true; tries unshare unshare -U true
        tries mounts unshare -m true",
    )
    .refused(&["bwrap: ", "user: ", "unshare: not permitted|No space", "mounts: not permitted"])
    .seen(&[(Syscall, "clone"), (Syscall, "unshare")]),
    perl(
        "enters namespaces of others",
        r#"for my $kind (qw(mnt user net pid)) { tried "first-$kind", sysopen(my $one, "/proc/1/ns/$kind", O_RDONLY) }
        tried 'outside', sysopen(my $other, "/proc/$ENV{VICTIM_PID}/ns/mnt", O_RDONLY);
        sysopen(my $own, '/proc/self/ns/mnt', O_RDONLY) or die; call 'setns', fileno $own, 0;"#,
    )
    .refused(&["first-mnt: EACCES|EPERM", "first-user: EACCES|EPERM", "outside: ENOENT", "setns: EPERM"])
    .seen(&[(Syscall, "setns")]),
    perl(
        "mounts",
        r#"my ($none, $root, $work, $proc, $tmpfs, $reference) = map { "$_\0" } ('none', '/', '/workspace', 'proc', 'tmpfs', '/reference');
        sub tried_mount { my $what = shift; my $answer = syscall($call{mount}, @_); tried $what, $answer >= 0 }
        tried_mount 'remount', $none, $reference, $none, 0x1020, 0; tried_mount 'root', $none, $root, $none, 0x20, 0;
        tried_mount 'proc', $proc, $work, $proc, 0, 0; tried_mount 'tmpfs', $tmpfs, $work, $tmpfs, 0, 0;
        tried_mount 'bind', $root, $work, $none, 0x1000, 0; tried_mount 'shared', $none, $root, $none, 0x104000, 0;
        call 'umount2', $reference, 2; call 'pivot_root', $work, $work; call 'chroot', $work; call 'fsopen', $tmpfs, 0;
        call 'open_tree', -100, $root, 1; call 'move_mount', -100, $root, -100, $work, 0; call 'fspick', -100, $root, 0;
        my $attributes = pack('Q4', 0, 1, 0, 0); call 'mount_setattr', -100, $reference, 0, $attributes, 32;
        call 'fsconfig', 0, 0, 0, 0, 0; call 'fsmount', 0, 0, 0;"#,
    )
    .refused(&[
        "remount: EPERM",
        "root: EPERM",
        "proc: EPERM",
        "tmpfs: EPERM",
        "bind: EPERM",
        "shared: EPERM",
        "umount2: EPERM",
        "pivot_root: EPERM",
        "chroot: EPERM",
        "fsopen: EPERM|ENOSYS",
        "open_tree: EPERM|ENOSYS",
        "move_mount: EPERM|ENOSYS",
        "fspick: EPERM|ENOSYS",
        "mount_setattr: EPERM|ENOSYS",
        "fsconfig: EPERM|ENOSYS",
        "fsmount: EPERM|ENOSYS",
    ])
    .seen(&[
        (Syscall, "mount"),
        (Syscall, "umount2"),
        (Syscall, "pivot_root"),
        (Syscall, "chroot"),
        (Syscall, "fsopen"),
        (Syscall, "open_tree"),
        (Syscall, "move_mount"),
        (Syscall, "fspick"),
        (Syscall, "mount_setattr"),
        (Syscall, "fsconfig"),
        (Syscall, "fsmount"),
    ]),
    perl(
        "asks the kernel for wide interfaces",
        r#"my $zero = "\0" x 256; call 'bpf', 0, $zero, 128; call 'io_uring_setup', 4, $zero;
        my $event = pack('L L Q', 1, 128, 0) . "\0" x 112; call 'perf_event_open', $event, 0, -1, -1, 0;
        call 'userfaultfd', 1; call 'fanotify_init', 0, 0; call 'syslog', 3, $zero, 256; call 'quotactl', 0, 0, 0, 0;"#,
    )
    .refused(&[
        "bpf: EPERM|ENOSYS",
        "io_uring_setup: EPERM|ENOSYS",
        "perf_event_open: EPERM|ENOSYS",
        "userfaultfd: EPERM|ENOSYS",
        "fanotify_init: EPERM|ENOSYS",
        "syslog: EPERM",
        "quotactl: EPERM|ENOSYS",
    ])
    .seen(&[
        (Syscall, "bpf"),
        (Syscall, "userfaultfd"),
        (Syscall, "fanotify_init"),
        (Syscall, "syslog"),
        (Syscall, "quotactl"),
    ]),
    perl(
        "changes the machine",
        r#"my ($none, $name, $zero) = ("\0", "door\0", "\0" x 256);
        call 'reboot', 0, 0, 0, 0; call 'kexec_load', 0, 0, 0, 0; call 'init_module', $zero, 0, $none;
        call 'finit_module', 0, $none, 0; call 'delete_module', $name, 0; call 'swapon', $name, 0; call 'acct', $name;
        call 'sethostname', $name, 4; call 'setdomainname', $name, 4; my $time = pack('q q', 0, 0);
        call 'settimeofday', $time, 0; call 'clock_settime', 0, $time; my $change = pack('L', 1) . "\0" x 300;
        call 'adjtimex', $change;"#,
    )
    .refused(&[
        "reboot: EPERM",
        "kexec_load: EPERM|ENOSYS",
        "init_module: EPERM|ENOSYS",
        "finit_module: EPERM|ENOSYS",
        "delete_module: EPERM|ENOSYS",
        "swapon: EPERM",
        "acct: EPERM|ENOSYS",
        "sethostname: EPERM",
        "setdomainname: EPERM",
        "settimeofday: EPERM",
        "clock_settime: EPERM",
        "adjtimex: EPERM",
    ])
    .seen(&[
        (Syscall, "reboot"),
        (Syscall, "kexec_load"),
        (Syscall, "init_module"),
        (Syscall, "finit_module"),
        (Syscall, "delete_module"),
        (Syscall, "swapon"),
        (Syscall, "acct"),
        (Syscall, "sethostname"),
        (Syscall, "setdomainname"),
        (Syscall, "settimeofday"),
        (Syscall, "clock_settime"),
    ]),
    perl(
        "becomes somebody else",
        r#"call 'setuid', 0; call 'setgid', 0; my $groups = pack('L', 0); call 'setgroups', 1, $groups;
        my $header = pack('L l', 0x20080522, 0); my $sets = pack('L6', (0xffffffff) x 6); call 'capset', $header, $sets;
        for (qw(uid_map gid_map setgroups)) { my $map; tried $_, sysopen($map, "/proc/self/$_", O_WRONLY) && syswrite($map, "0 0 1\n") }
        tried 'owner', chown(0, 0, "$ENV{WORK}/kept/file");"#,
    )
    .refused(&[
        "setuid: EPERM|EINVAL",
        "setgid: EPERM|EINVAL",
        "setgroups: EPERM",
        "capset: EPERM",
        "uid_map: EPERM|EACCES|EROFS",
        "gid_map: EPERM|EACCES|EROFS",
        "owner: EPERM|EINVAL",
    ]),
    sh(
        "runs programs that become root",
        r#"tries su su -c true </dev/null; cp /usr/bin/id "$WORK/id"; chmod 6755 "$WORK/id"
        same self "$(id -u)" "$("$WORK/id" -u)"; tries mount mount -t tmpfs none "$WORK"
        for one in $(find /usr -perm /6000 -type f 2>/dev/null); do
            [ "$(setpriv --dump 2>/dev/null | grep -c no_new_privs:.1)" = 1 ] || echo "BREACH $one"; done; echo refused all: looked"#,
    )
    .refused(&["su: ", "self: as", "mount: ", "all: looked"])
    .seen(&[(Syscall, "mount")]),
    sh(
        "writes settings of the kernel",
        "for one in kernel/core_pattern kernel/hostname kernel/panic vm/drop_caches user/max_user_namespaces net/ipv4/ip_forward; do
            tries $one writes /proc/sys/$one; done
        tries sysrq writes /proc/sysrq-trigger; tries core cat /proc/kcore; tries messages cat /proc/kmsg; tries sys ls /sys
        tries groups ls /sys/fs/cgroup; tries irq writes /proc/irq/default_smp_affinity",
    )
    .refused(&[
        "kernel/core_pattern: Permission|Read-only",
        "kernel/hostname: Permission|Read-only",
        "kernel/panic: Permission|Read-only",
        "user/max_user_namespaces: Permission|Read-only",
        "sysrq: Permission|Read-only|nonexistent",
        "core: Permission|not permitted|No such",
        "messages: Permission|not permitted|No such",
        "sys: No such",
        "groups: No such",
    ]),
    sh(
        "looks for devices",
        r#"same devices "core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero " "$(ls -A /dev | tr '\n' ' ')"
        for one in mem kmsg vda sda kvm fuse loop-control loop0 vsock btrfs-control port; do tries $one cat /dev/$one; done
        tries disk mknod $WORK/disk b 254 0; tries memory mknod $WORK/memory c 1 1; tries pipe mknod /dev/made p"#,
    )
    .refused(&[
        "devices: as",
        "mem: No such",
        "kmsg: No such",
        "vda: No such",
        "kvm: No such",
        "fuse: No such",
        "loop-control: No such",
        "vsock: No such",
        "disk: not permitted|Permission",
        "memory: not permitted|Permission",
        "pipe: Read-only|Permission",
    ]),
    perl(
        "types into the terminal of its parent",
        r#"tried 'terminal', sysopen(my $terminal, '/dev/tty', O_RDWR); my $key = 'x';
        for (0 .. 2) { open(my $stream, "<&=$_") or next; tried "stream-$_", ioctl($stream, 0x5412, $key) }"#,
    )
    .refused(&["terminal: ENXIO|ENOENT|EPERM", "stream-0: ENOTTY|EPERM|EIO|EACCES", "stream-1: ENOTTY|EPERM|EIO|EACCES"])
    .seen(&[(Syscall, "TIOCSTI")]),
    sh("loads itself into the programs around it", r#"echo refused loading: heard"#)
        .env(&[("LD_PRELOAD", "./not-there.so"), ("LD_AUDIT", "./not-there.so"), ("GCONV_PATH", "/workspace")])
        .refused(&["loading: heard"]),
    #[cfg(target_arch = "x86_64")]
    perl(
        "calls the kernel by other numbers",
        r#"my $answer = syscall(0x40000000 | $call{keyctl}, 0, -3, 1); tried 'x32', $answer >= 0;
        # The smallest 32-bit program that asks for its keyring through int 0x80 and ends with the error as its code.
        my $code = pack('H*', 'b820010000' . '31db' . 'b9fdffffff' . 'ba01000000' . 'cd80' . '85c0' . '7904' . 'f7d8' . 'eb02' . '31c0' . '89c3' . 'b801000000' . 'cd80');
        my $base = 0x8048000; my $size = 84 + length $code;
        my $elf = "\x7fELF\1\1\1" . "\0" x 9 . pack('v v V V V V V v v v v v v', 2, 3, 1, $base + 84, 52, 0, 0, 52, 32, 1, 0, 0, 0)
            . pack('V8', 1, 0, $base, $base, $size, $size, 5, 4096) . $code;
        open(my $file, '>', "$ENV{WORK}/narrow") or die; print $file $elf; close $file; chmod 0755, "$ENV{WORK}/narrow";
        my $status = system("$ENV{WORK}/narrow"); tell_it 'narrow', $status == 0, "status $status";"#,
    )
    .refused(&["x32: ENOSYS", "narrow: status"]),
];
