//! Which system calls a box refuses, as data, and the filter made of it.
//!
//! It is the third wall behind namespaces and Landlock: what would open a namespace, a mount, another process' memory,
//! a key ring, or a part of the kernel that no build needs and that has been the way out of boxes before. Whatever is not
//! listed is left to the kernel, which knows the capabilities that nobody here has (`adjtimex` may read the clock and not
//! set it).
//!
//! - A refusal is seen ([`Rule::seen`]): the filter hands the call to `box-init`, which counts it and answers the error.
//!   Not seen are calls that ordinary programs make all the time to find out whether they can; they would drown the rest.
//! - The filter and [`judge`] come from the same list, and are held against each other by the tests.
//! - Only what is in registers is looked at: memory behind a pointer can change after it was read. That is why `clone3`,
//!   whose flags are in memory, does not exist here; the C libraries then use `clone`.
//!
//! Where to go next: [`super::refusals`], who answers; `orc_kernel::seccomp`, which puts the filter on.

use std::borrow::Cow;

use orc_kernel::seccomp::Instruction;
use rustix::io::Errno;

/// Flags of `clone` that make namespaces (`include/uapi/linux/sched.h`): mounts, cgroup, uts, ipc, user, pid, network.
const NAMESPACES: u32 = 0x7e02_0000;
/// The one that `clone` does not know, where it is part of the signal: time.
const TIME_NAMESPACE: u32 = 0x80;
/// Commands of a terminal that put words into somebody else's mouth or load code into the kernel
/// (`include/uapi/asm-generic/ioctls.h`): TIOCSTI, TIOCLINUX, TIOCSETD.
const TERMINAL: [(u32, &str); 3] = [(0x5412, "TIOCSTI"), (0x541c, "TIOCLINUX"), (0x5423, "TIOCSETD")];
/// What `personality` may be: Linux, the same without random addresses (debuggers, Lisp and `setarch -R` ask for that, and
/// it weakens nobody else), and the question what it is (`include/uapi/linux/personality.h`).
const PERSONALITIES: [u32; 3] = [0, 0x0004_0000, 0xffff_ffff];
/// Families of sockets (`include/linux/socket.h`): AF_UNIX, AF_INET, AF_INET6.
const FAMILIES: [u32; 3] = [1, 2, 10];
/// AF_NETLINK, of which NETLINK_ROUTE (protocol 0) tells programs the addresses of the machine they are on.
const NETLINK: u32 = 16;
/// Last family that the kernel knows (AF_MCTP), and its names as far as somebody is likely to try them.
const LAST_FAMILY: u32 = 45;
const NAMED_FAMILIES: [(u32, &str); 6] =
    [(16, "AF_NETLINK"), (17, "AF_PACKET"), (30, "AF_TIPC"), (31, "AF_BLUETOOTH"), (38, "AF_ALG"), (40, "AF_VSOCK")];

/// A system call that is refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    call: i64,
    name: &'static str,
    when: When,
    error: Errno,
    seen: bool,
}

/// When it is.
#[derive(Clone, Copy, Debug)]
enum When {
    Always,
    /// An argument has one of these bits.
    Bits(u32),
    /// The first argument is none of these.
    NotOneOf(&'static [u32]),
    /// The second argument is a command of [`TERMINAL`].
    Terminal,
    /// It asks for a socket other than [`FAMILIES`] and the one protocol of [`NETLINK`].
    Socket,
}

const fn refuse(call: i64, name: &'static str) -> Rule {
    Rule { call, name, when: When::Always, error: Errno::PERM, seen: true }
}

const fn only(call: i64, name: &'static str, when: When) -> Rule {
    Rule { when, ..refuse(call, name) }
}

const fn socket(call: i64, name: &'static str) -> Rule {
    Rule { error: Errno::AFNOSUPPORT, ..only(call, name, When::Socket) }
}

/// A call of which a program is told, as by an older kernel, that there is no such thing.
const fn absent(call: i64, name: &'static str) -> Rule {
    Rule { error: Errno::NOSYS, ..refuse(call, name) }
}

const fn unseen(rule: Rule) -> Rule {
    Rule { seen: false, ..rule }
}

/// `open_tree_attr`, newer than our library's names (`scripts/syscall.tbl`, Linux 6.15).
const OPEN_TREE_ATTR: i64 = 467;

const RULES: [Rule; 59] = [
    // Every thread that glibc starts asks for it first.
    unseen(absent(libc::SYS_clone3, "clone3")),
    // Node (libuv) and many asynchronous runtimes ask at their start whether they can have it.
    unseen(absent(libc::SYS_io_uring_setup, "io_uring_setup")),
    // Runtimes and test frameworks ask for counters; the kernel's own setting mostly refuses it already.
    unseen(refuse(libc::SYS_perf_event_open, "perf_event_open")),
    socket(libc::SYS_socket, "socket"),
    socket(libc::SYS_socketpair, "socketpair"),
    only(libc::SYS_ioctl, "ioctl", When::Terminal),
    only(libc::SYS_clone, "clone", When::Bits(NAMESPACES)),
    only(libc::SYS_unshare, "unshare", When::Bits(NAMESPACES | TIME_NAMESPACE)),
    only(libc::SYS_personality, "personality", When::NotOneOf(&PERSONALITIES)),
    refuse(libc::SYS_setns, "setns"),
    refuse(libc::SYS_mount, "mount"),
    refuse(libc::SYS_umount2, "umount2"),
    refuse(libc::SYS_pivot_root, "pivot_root"),
    refuse(libc::SYS_chroot, "chroot"),
    refuse(libc::SYS_open_tree, "open_tree"),
    refuse(OPEN_TREE_ATTR, "open_tree_attr"),
    refuse(libc::SYS_move_mount, "move_mount"),
    refuse(libc::SYS_fsopen, "fsopen"),
    refuse(libc::SYS_fsconfig, "fsconfig"),
    refuse(libc::SYS_fsmount, "fsmount"),
    refuse(libc::SYS_fspick, "fspick"),
    refuse(libc::SYS_mount_setattr, "mount_setattr"),
    refuse(libc::SYS_ptrace, "ptrace"),
    refuse(libc::SYS_process_vm_readv, "process_vm_readv"),
    refuse(libc::SYS_process_vm_writev, "process_vm_writev"),
    refuse(libc::SYS_process_madvise, "process_madvise"),
    refuse(libc::SYS_kcmp, "kcmp"),
    refuse(libc::SYS_pidfd_getfd, "pidfd_getfd"),
    refuse(libc::SYS_add_key, "add_key"),
    refuse(libc::SYS_request_key, "request_key"),
    refuse(libc::SYS_keyctl, "keyctl"),
    refuse(libc::SYS_bpf, "bpf"),
    refuse(libc::SYS_userfaultfd, "userfaultfd"),
    absent(libc::SYS_io_uring_enter, "io_uring_enter"),
    absent(libc::SYS_io_uring_register, "io_uring_register"),
    refuse(libc::SYS_kexec_load, "kexec_load"),
    refuse(libc::SYS_kexec_file_load, "kexec_file_load"),
    refuse(libc::SYS_init_module, "init_module"),
    refuse(libc::SYS_finit_module, "finit_module"),
    refuse(libc::SYS_delete_module, "delete_module"),
    refuse(libc::SYS_open_by_handle_at, "open_by_handle_at"),
    refuse(libc::SYS_name_to_handle_at, "name_to_handle_at"),
    refuse(libc::SYS_fanotify_init, "fanotify_init"),
    refuse(libc::SYS_fanotify_mark, "fanotify_mark"),
    refuse(libc::SYS_quotactl, "quotactl"),
    refuse(libc::SYS_quotactl_fd, "quotactl_fd"),
    refuse(libc::SYS_swapon, "swapon"),
    refuse(libc::SYS_swapoff, "swapoff"),
    refuse(libc::SYS_reboot, "reboot"),
    refuse(libc::SYS_acct, "acct"),
    refuse(libc::SYS_settimeofday, "settimeofday"),
    refuse(libc::SYS_clock_settime, "clock_settime"),
    refuse(libc::SYS_syslog, "syslog"),
    refuse(libc::SYS_vhangup, "vhangup"),
    refuse(libc::SYS_nfsservctl, "nfsservctl"),
    refuse(libc::SYS_lookup_dcookie, "lookup_dcookie"),
    refuse(libc::SYS_sethostname, "sethostname"),
    refuse(libc::SYS_setdomainname, "setdomainname"),
    refuse(libc::SYS_memfd_secret, "memfd_secret"),
];

/// A system call as it is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) call: i64,
    pub(super) arguments: [u64; 6],
}

impl Attempt {
    /// What the kernel takes where it wants an `int`.
    #[expect(clippy::cast_possible_truncation, reason = "the kernel ignores the upper half of these arguments too")]
    const fn word(&self, index: usize) -> u32 {
        self.arguments[index] as u32
    }
}

/// What is refused, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// One line: the call, with what was wrong about it. One of a bounded number.
    pub(super) what: Cow<'static, str>,
    pub(super) error: Errno,
    /// Whether it is told.
    pub(super) seen: bool,
}

/// Whether a call is refused.
pub(super) fn judge(attempt: &Attempt) -> Option<Refusal> {
    let rule = RULES.iter().find(|rule| rule.call == attempt.call && rule.when.holds(attempt))?;
    let first = attempt.word(0);
    let detail = match rule.when {
        When::Always => return Some(rule.refusal(Cow::Borrowed(rule.name))),
        When::Bits(_) => "a new namespace".to_owned(),
        When::NotOneOf(_) => "another kernel's ways".to_owned(),
        When::Terminal => {
            let known = TERMINAL.iter().find(|(command, _)| *command == attempt.word(1));
            known.map_or_else(String::new, |(_, name)| (*name).to_owned())
        }
        When::Socket => match NAMED_FAMILIES.iter().find(|(family, _)| *family == first) {
            Some((_, name)) => (*name).to_owned(),
            None if first <= LAST_FAMILY => format!("family {first}"),
            None => "an unknown family".to_owned(),
        },
    };
    Some(rule.refusal(format!("{}: {detail}", rule.name).into()))
}

impl Rule {
    const fn refusal(&self, what: Cow<'static, str>) -> Refusal {
        Refusal { what, error: self.error, seen: self.seen }
    }
}

impl When {
    fn holds(self, attempt: &Attempt) -> bool {
        let first = attempt.word(0);
        match self {
            Self::Always => true,
            Self::Bits(bits) => first & bits != 0,
            Self::NotOneOf(good) => !good.contains(&first),
            Self::Terminal => TERMINAL.iter().any(|(command, _)| *command == attempt.word(1)),
            Self::Socket => !(FAMILIES.contains(&first) || first == NETLINK && attempt.word(2) == 0),
        }
    }
}

/// Codes of instructions (`include/uapi/linux/bpf_common.h`): load a word of the call, compare, end.
const LOAD: u16 = 0x20;
const EQUAL: u16 = 0x15;
const AT_LEAST: u16 = 0x35;
const ANY_BIT: u16 = 0x45;
const END: u16 = 0x06;
/// Ends of a filter (`include/uapi/linux/seccomp.h`).
const KILL_PROCESS: u32 = 0x8000_0000;
const ERROR: u32 = 0x0005_0000;
const HAND_OVER: u32 = 0x7fc0_0000;
const ALLOW: u32 = 0x7fff_0000;
/// Where things are in `struct seccomp_data`: number, architecture, and arguments of 8 bytes, the lower half first.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;
/// `include/uapi/linux/audit.h`.
const OURS: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
/// Calls of x32, a second way to number the calls of the same architecture (`arch/x86/include/uapi/asm/unistd.h`).
const X32: u32 = 0x4000_0000;

const fn load(at: u32) -> Instruction {
    Instruction { code: LOAD, if_true: 0, if_false: 0, value: at }
}

const fn argument(index: u32) -> Instruction {
    load(ARGUMENTS + 8 * index)
}

const fn skip(code: u16, value: u32, if_true: u8, if_false: u8) -> Instruction {
    Instruction { code, if_true, if_false, value }
}

const fn end(how: u32) -> Instruction {
    Instruction { code: END, if_true: 0, if_false: 0, value: how }
}

/// The filter of every box. Another architecture (32 bits on the same processor) is the end of whoever calls: its numbers
/// are not ours, and no list of ours would mean anything.
pub(super) fn filter() -> Vec<Instruction> {
    let mut filter = vec![load(ARCHITECTURE), skip(EQUAL, OURS, 1, 0), end(KILL_PROCESS), load(NUMBER)];
    filter.extend([skip(AT_LEAST, X32, 0, 1), end(ERROR | Errno::NOSYS.raw_os_error().cast_unsigned())]);
    for rule in &RULES {
        let block = rule.block();
        let (Ok(number), Ok(length)) = (u32::try_from(rule.call), u8::try_from(block.len())) else { continue };
        filter.push(skip(EQUAL, number, 0, length));
        filter.extend(block);
    }
    filter.push(end(ALLOW));
    filter
}

impl Rule {
    /// What follows when the number is ours: always an end.
    fn block(&self) -> Vec<Instruction> {
        let refused = end(if self.seen { HAND_OVER } else { ERROR | self.error.raw_os_error().cast_unsigned() });
        let mut block = Vec::new();
        match self.when {
            When::Always => {}
            When::Bits(bits) => block.extend([argument(0), skip(ANY_BIT, bits, 1, 0), end(ALLOW)]),
            When::NotOneOf(good) => {
                block.push(argument(0));
                block.extend(good.iter().flat_map(|value| [skip(EQUAL, *value, 0, 1), end(ALLOW)]));
            }
            When::Terminal => {
                block.push(argument(1));
                block.extend(TERMINAL.iter().flat_map(|(command, _)| [skip(EQUAL, *command, 0, 1), refused]));
                block.push(end(ALLOW));
            }
            When::Socket => {
                block.push(argument(0));
                block.extend(FAMILIES.iter().flat_map(|family| [skip(EQUAL, *family, 0, 1), end(ALLOW)]));
                // Not netlink: over the look at its protocol.
                block.extend([skip(EQUAL, NETLINK, 0, 3), argument(2), skip(EQUAL, 0, 0, 1), end(ALLOW)]);
            }
        }
        block.push(refused);
        block
    }
}

#[cfg(test)]
mod tests;
