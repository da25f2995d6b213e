//! A filter of system calls whose refusals somebody hears (seccomp(2), seccomp_unotify(2)).

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// One instruction of a filter (`struct sock_filter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// What to do.
    pub code: u16,
    /// How many instructions to leave out when a comparison holds.
    pub if_true: u8,
    /// And when it does not.
    pub if_false: u8,
    /// The constant.
    pub value: u32,
}

/// A system call that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification {
    /// Names it in the answer.
    pub id: u64,
    /// Number of the call.
    pub call: i32,
    /// Its arguments, as they are in registers.
    pub arguments: [u64; 6],
}

/// Where the system calls arrive that a filter hands over. Once it is closed, they fail with ENOSYS.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// Puts a filter on the calling thread and on everything that it starts. The thread must have given up new privileges.
///
/// # Errors
/// When the kernel refuses the filter, knows no listeners (before Linux 5.0), or the filter is longer than 65,535.
pub fn install(filter: &[Instruction]) -> io::Result<Listener> {
    let mut filter: Vec<libc::sock_filter> = filter.iter().map(encode).collect();
    let length = u16::try_from(filter.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len: length, filter: filter.as_mut_ptr() };
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
    // SAFETY: `program` points at `length` instructions that live until the call returns; the kernel copies them.
    let answer = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) };
    let fd = i32::try_from(crate::answered(answer)?).map_err(io::Error::other)?;
    // SAFETY: the kernel just made this descriptor, for nobody but us.
    Ok(Listener(unsafe { OwnedFd::from_raw_fd(fd) }))
}

fn encode(instruction: &Instruction) -> libc::sock_filter {
    let Instruction { code, if_true, if_false, value } = *instruction;
    libc::sock_filter { code, jt: if_true, jf: if_false, k: value }
}

impl Listener {
    /// The next system call; `None` when whoever made one was killed before we could look.
    ///
    /// # Errors
    /// When nobody is left who could make one, on kernels that tell.
    pub fn receive(&self) -> io::Result<Option<Notification>> {
        let mut seen = libc::seccomp_notif {
            id: 0,
            pid: 0,
            flags: 0,
            data: libc::seccomp_data { nr: 0, arch: 0, instruction_pointer: 0, args: [0; 6] },
        };
        // SAFETY: the kernel writes one `seccomp_notif`, which is zeroed, as it asks for, and lives until the call returns.
        let answer = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut seen) };
        match crate::answered(i64::from(answer)) {
            Ok(_) => Ok(Some(Notification { id: seen.id, call: seen.data.nr, arguments: seen.data.args })),
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lets the call fail with an error number.
    ///
    /// # Errors
    /// When whoever made it is gone.
    pub fn refuse(&self, notification: &Notification, error: i32) -> io::Result<()> {
        let mut answer = libc::seccomp_notif_resp { id: notification.id, val: 0, error: -error, flags: 0 };
        // SAFETY: the kernel reads one `seccomp_notif_resp` that lives until the call returns.
        let sent = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
        crate::answered(i64::from(sent)).map(drop)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}
