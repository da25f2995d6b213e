//! The system calls that no safe library offers, each behind a safe function.
//!
//! This is the only crate in which unsafe code may stand (`docs/adr/0021-kernel-crate.md`). What holds:
//! - Every function is safe for every argument: what could be wrong is an error of the kernel, never undefined behaviour.
//! - One unsafe operation to a block, with the reason why it is sound above it.
//! - Nothing here decides: no policy, no filter, no path. Those are plain data of the callers.
//!
//! Who uses it: `orc-process`, in the small programs that run around and in a box. None of it is called in the big process.

pub mod seccomp;

use std::io;

/// Closes at the next `exec` every descriptor from `first` on (Linux 5.11, `CLOSE_RANGE_CLOEXEC`).
///
/// # Errors
/// When the kernel is older.
pub fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: no memory is passed, and with this flag no descriptor is closed while somebody may still own it.
    let answer = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    answered(answer).map(drop)
}

/// Gives this process a view of the mounts of its own. For a process with one thread: others keep the old view.
///
/// # Errors
/// When it may not.
pub fn unshare_mounts() -> io::Result<()> {
    // SAFETY: no memory is passed; what is unshared besides the view of mounts (the working directory and the mask of new
    // files) is owned by the kernel.
    let answer = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    answered(i64::from(answer)).map(drop)
}

/// Makes a copy of this process that is a child of our parent, not of ours (`CLONE_PARENT`, clone(2)). `None` in the copy,
/// else its number.
///
/// # Errors
/// When this process has more threads than one, of which the copy would lack all others, whatever they hold; or when there can
/// be no further process.
pub fn fork_beside() -> io::Result<Option<i32>> {
    // SAFETY: no memory is passed, and nothing changes: all that the kernel does for it is to refuse it to a process that
    // has other threads (unshare(2)).
    let alone = unsafe { libc::unshare(libc::CLONE_THREAD) };
    answered(i64::from(alone))?;
    let (flags, nothing) = (libc::c_long::from(libc::CLONE_PARENT | libc::SIGCHLD), 0 as libc::c_long);
    // SAFETY: the copy goes on at the same place on a stack of its own, since neither memory nor a stack is shared or passed;
    // this is the only thread, so whatever memory is in the middle of a change is in this call.
    let answer = unsafe { libc::syscall(libc::SYS_clone, flags, nothing, nothing, nothing, nothing) };
    let pid = answered(answer)?;
    Ok(i32::try_from(pid).ok().filter(|pid| *pid != 0))
}

/// Version of the kernel's interface of Landlock (landlock(7)); 0 where it has none, or it is switched off.
#[must_use]
pub fn landlock_version() -> i32 {
    const VERSION: u32 = 1;
    // SAFETY: with this flag the kernel reads no memory: it wants a null pointer and the size 0, and answers a number.
    let answer =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0_usize, VERSION) };
    i32::try_from(answer).unwrap_or(0).max(0)
}

/// What a system call answered, or why not.
fn answered(answer: i64) -> io::Result<i64> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    #[test]
    fn a_process_with_threads_is_not_copied() {
        let (other, release) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().spawn(move || release.recv()).unwrap();
        let refused = super::fork_beside().unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
        drop(other);
        thread.join().unwrap().unwrap_err();
    }

    #[test]
    fn descriptors_do_not_survive_an_exec() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let flags = |fd: i32| std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap();
        super::close_on_exec_from(u32::try_from(file.as_raw_fd()).unwrap()).unwrap();
        let flags = flags(file.as_raw_fd());
        let octal = flags.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
        // O_CLOEXEC, `include/uapi/asm-generic/fcntl.h`.
        assert_ne!(u32::from_str_radix(octal, 8).unwrap() & 0o2_000_000, 0, "{flags}");
    }
}
