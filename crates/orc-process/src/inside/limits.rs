//! Bounds of each process inside that the kernel keeps (getrlimit(2)). They are on `box-init` too, which needs little.

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::sandbox::{Bounds, OWN_PROCESSES};

/// Puts them on this process and everything that it starts; nobody inside can raise them again.
pub(super) fn apply(bounds: &Bounds) -> Result<(), String> {
    let processes = match bounds.processes {
        0 => 0,
        processes => processes.saturating_add(OWN_PROCESSES),
    };
    for (resource, name, value) in [
        (Resource::Nofile, "open files", bounds.open_files),
        (Resource::Fsize, "bytes of a file", bounds.file_bytes),
        (Resource::Nproc, "processes", processes),
        // Not of addresses: runtimes reserve far more of those than they use.
        (Resource::Data, "bytes of memory", bounds.memory_bytes),
    ] {
        if value > 0 {
            set(resource, name, value)?;
        }
    }
    set(Resource::Core, "bytes of a core dump", 0)
}

fn set(resource: Resource, name: &str, value: u64) -> Result<(), String> {
    // What is bounded further already stays so.
    let hard = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let value = Some(value.min(hard));
    let failed = |error| format!("cannot bound the number of {name}: {error}");
    setrlimit(resource, Rlimit { current: value, maximum: value }).map_err(failed)
}
