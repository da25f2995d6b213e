//! What an attempt is: a script that tries to get out of its box, and the proof that it did not.
//!
//! A script says `refused WHAT: WHY` for what did not work and `BREACH WHAT` for what did. That it says nothing is no
//! proof: every refusal that is expected must be there, so that a script that never got to its point fails too.

use std::path::{Path, PathBuf};

use orc_domain::confine::ViolationKind;
use orc_ports::executor::{BoxLimits, Confinement, Mount, OutputFile, Source};

use crate::world::Place;

/// A try to get out.
#[derive(Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) name: &'static str,
    language: Language,
    script: &'static str,
    /// `WHAT: WHY|WHY`: each must have been refused, for one of these reasons.
    pub(crate) refused: &'static [&'static str],
    /// What the report must tell about it, and nothing else: the kind, and what its text contains.
    pub(crate) seen: &'static [(ViolationKind, &'static str)],
    /// The same, where a control group bounds all of the box together; else the kernel refuses and tells nobody.
    pub(crate) seen_together: &'static [(ViolationKind, &'static str)],
    pub(crate) end: End,
    /// That there is no such box, said with a reason, is a refusal too.
    pub(crate) or_no_box: bool,
    /// Without a box it works: then the box is what refuses it.
    pub(crate) works_outside: bool,
    pub(crate) shape: fn(&mut Confinement, &Place),
    pub(crate) output: Output,
    pub(crate) env: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy)]
enum Language {
    Sh,
    Perl,
}

/// How the program must end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// By itself, with code 0.
    Itself,
    /// Somehow: what it tries may kill it.
    Somehow,
}

/// What must be left of `$ORC_OUTPUT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Output {
    /// Nothing was written.
    Empty,
    /// Something that is not read.
    Refused,
    /// Too much.
    TooLarge,
}

impl Output {
    pub(crate) fn holds(self, found: &OutputFile) -> bool {
        match self {
            Self::Empty => *found == OutputFile::Bytes(Vec::new()),
            Self::Refused => matches!(found, OutputFile::Unreadable { .. }),
            Self::TooLarge => matches!(found, OutputFile::TooLarge { .. }),
        }
    }
}

pub(crate) const fn sh(name: &'static str, script: &'static str) -> Attempt {
    attempt(name, Language::Sh, script)
}

pub(crate) const fn perl(name: &'static str, script: &'static str) -> Attempt {
    attempt(name, Language::Perl, script)
}

const fn attempt(name: &'static str, language: Language, script: &'static str) -> Attempt {
    Attempt {
        name,
        language,
        script,
        refused: &[],
        seen: &[],
        seen_together: &[],
        end: End::Itself,
        or_no_box: false,
        works_outside: false,
        shape: |_, _| {},
        output: Output::Empty,
        env: &[],
    }
}

impl Attempt {
    pub(crate) const fn refused(mut self, refused: &'static [&'static str]) -> Self {
        self.refused = refused;
        self
    }

    pub(crate) const fn seen(mut self, seen: &'static [(ViolationKind, &'static str)]) -> Self {
        self.seen = seen;
        self
    }

    pub(crate) const fn seen_together(mut self, seen: &'static [(ViolationKind, &'static str)]) -> Self {
        self.seen_together = seen;
        self
    }

    pub(crate) const fn works_outside(mut self) -> Self {
        self.works_outside = true;
        self
    }

    pub(crate) const fn or_no_box(mut self) -> Self {
        self.or_no_box = true;
        self
    }

    pub(crate) const fn ends_somehow(mut self) -> Self {
        self.end = End::Somehow;
        self
    }

    pub(crate) const fn shape(mut self, shape: fn(&mut Confinement, &Place)) -> Self {
        self.shape = shape;
        self
    }

    pub(crate) const fn leaves(mut self, output: Output) -> Self {
        self.output = output;
        self
    }

    pub(crate) const fn env(mut self, env: &'static [(&'static str, &'static str)]) -> Self {
        self.env = env;
        self
    }

    /// Its command line.
    pub(crate) fn argv(&self) -> Vec<String> {
        let (program, flag, prelude) = match self.language {
            Language::Sh => ("sh", "-c", SH.to_owned()),
            Language::Perl => ("perl", "-e", format!("{PERL}{}", numbers())),
        };
        vec![program.to_owned(), flag.to_owned(), format!("{prelude}{}", self.script)]
    }
}

/// Where the copy is in a box.
pub(crate) const WORK: &str = "/workspace";

/// A path in the copy, as the box calls it.
pub(crate) fn inside(name: &str) -> PathBuf {
    Path::new(WORK).join(name)
}

/// A box with the usual mounts.
pub(crate) fn confinement(place: &Place) -> Confinement {
    let mount =
        |source: &str, at: &str, writable| Mount { source: Source::Path(place.path(source)), at: at.into(), writable };
    Confinement {
        mounts: vec![mount("copy", WORK, true), mount("reference", "/reference", false)],
        home: place.path("home"),
        masked: Vec::new(),
        network: std::collections::BTreeSet::new(),
        doors: Vec::new(),
        limits: BoxLimits { processes: 256, memory_bytes: 1 << 30, disk_bytes: 1 << 30, open_files: 1024 },
    }
}

/// What kills everything that it reaches must not do so because nobody made a box: then it does nothing.
///
/// `tries WHAT PROGRAM...`: it must fail. `same WHAT EXPECTED FOUND`: it must be as expected, to the letter.
const SH: &str = r#"
[ -z "$BOXED" ] || [ -e /orc/orchestrator ] || exit 99
export LC_ALL=C
tries() {
    what=$1; shift
    if said=$("$@" 2>&1); then echo "BREACH $what: $said"; else echo "refused $what: $said" | tr '\n' ' '; echo; fi
}
same() { if [ "$2" = "$3" ]; then echo "refused $1: as expected"; else echo "BREACH $1: $3"; fi; }
writes() { echo overwritten >"$1"; }
"#;

/// `tried WHAT, SUCCESS` with the reason in `$!`; `tell WHAT, SUCCESS, REASON`; `call NAME, ARGUMENTS` is a system call.
const PERL: &str = r#"
exit 99 if $ENV{BOXED} && !-e '/orc/orchestrator';
use strict; use Errno; use Fcntl; use Socket; use POSIX ();
$| = 1; $SIG{ALRM} = sub { print "BREACH it did not end\n"; exit 1 }; alarm 50;
my %errno;
for my $name (sort { $b cmp $a } keys %!) { my $code = Errno->can($name); $errno{$code->()} = $name if $code }
sub tell_it { my ($what, $worked, $why) = @_; print $worked ? "BREACH $what\n" : "refused $what: $why\n" }
sub tried { my ($what, $worked) = @_; my $number = $! + 0; tell_it($what, $worked, $errno{$number} // $number) }
my %call;
sub call { my ($name, @arguments) = @_; my $answer = syscall($call{$name}, @arguments); tried($name, $answer >= 0); $answer }
sub connects {
    my ($what, $family, $address, $type) = @_;
    socket(my $socket, $family, $type // SOCK_STREAM, 0) or return tried($what, 0);
    tried($what, connect($socket, $address));
}
"#;

/// The numbers of system calls, which differ from machine to machine, for `call`.
fn numbers() -> String {
    let known = [
        ("acct", libc::SYS_acct),
        ("add_key", libc::SYS_add_key),
        ("adjtimex", libc::SYS_adjtimex),
        ("bpf", libc::SYS_bpf),
        ("capset", libc::SYS_capset),
        ("chroot", libc::SYS_chroot),
        ("clock_settime", libc::SYS_clock_settime),
        ("clone", libc::SYS_clone),
        ("clone3", libc::SYS_clone3),
        ("delete_module", libc::SYS_delete_module),
        ("fanotify_init", libc::SYS_fanotify_init),
        ("finit_module", libc::SYS_finit_module),
        ("fsconfig", libc::SYS_fsconfig),
        ("fsmount", libc::SYS_fsmount),
        ("fsopen", libc::SYS_fsopen),
        ("fspick", libc::SYS_fspick),
        ("init_module", libc::SYS_init_module),
        ("io_uring_setup", libc::SYS_io_uring_setup),
        ("kcmp", libc::SYS_kcmp),
        ("kexec_load", libc::SYS_kexec_load),
        ("keyctl", libc::SYS_keyctl),
        ("memfd_create", libc::SYS_memfd_create),
        ("mount", libc::SYS_mount),
        ("mount_setattr", libc::SYS_mount_setattr),
        ("move_mount", libc::SYS_move_mount),
        ("name_to_handle_at", libc::SYS_name_to_handle_at),
        ("open_by_handle_at", libc::SYS_open_by_handle_at),
        ("open_tree", libc::SYS_open_tree),
        ("perf_event_open", libc::SYS_perf_event_open),
        ("personality", libc::SYS_personality),
        ("pidfd_getfd", libc::SYS_pidfd_getfd),
        ("pidfd_open", libc::SYS_pidfd_open),
        ("pidfd_send_signal", libc::SYS_pidfd_send_signal),
        ("pivot_root", libc::SYS_pivot_root),
        ("process_vm_readv", libc::SYS_process_vm_readv),
        ("process_vm_writev", libc::SYS_process_vm_writev),
        ("ptrace", libc::SYS_ptrace),
        ("quotactl", libc::SYS_quotactl),
        ("reboot", libc::SYS_reboot),
        ("request_key", libc::SYS_request_key),
        ("setdomainname", libc::SYS_setdomainname),
        ("setgid", libc::SYS_setgid),
        ("setgroups", libc::SYS_setgroups),
        ("sethostname", libc::SYS_sethostname),
        ("setns", libc::SYS_setns),
        ("settimeofday", libc::SYS_settimeofday),
        ("setuid", libc::SYS_setuid),
        ("swapon", libc::SYS_swapon),
        ("syslog", libc::SYS_syslog),
        ("umount2", libc::SYS_umount2),
        ("unshare", libc::SYS_unshare),
        ("userfaultfd", libc::SYS_userfaultfd),
    ];
    let pairs: Vec<String> = known.iter().map(|(name, number)| format!("{name} => {number}")).collect();
    format!("%call = ({});\n", pairs.join(", "))
}
