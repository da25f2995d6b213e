//! Attempts at files: to read what is not given, to write where nothing may be written, to get around masks.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use orc_ports::executor::{Mount, Source};

use crate::attempt::{Attempt, Output, inside, perl, sh};
use crate::world::Place;

pub(crate) const ATTEMPTS: &[Attempt] = &[
    sh("reads a home by its path", r#"tries home cat "$OUTSIDE/.ssh/id_ed25519""#)
        .refused(&["home: No such file"])
        .works_outside(),
    sh(
        "looks for homes",
        r#"tries root cat "$(echo /root)/.ssh/id_ed25519"; tries list ls /root; tries homes ls /home
        same own "" "$(ls -A ~)""#,
    )
    .refused(&["root: No such file|Permission denied", "list: No such file|Permission denied", "homes: No such", "own: as"]),
    sh("reads another conversation", r#"tries copy cat "$OTHERS/copy/canary"; tries list ls "$OTHERS""#)
        .refused(&["copy: No such file", "list: No such file"])
        .works_outside(),
    sh("reads the store", r#"tries store cat "$STORE/orchestrator.db""#).refused(&["store: No such file"]).works_outside(),
    sh(
        "looks at all there is",
        r#"same root "bin dev etc lib lib32 lib64 libx32 orc proc reference sbin tmp usr workspace " \
            "$( (ls -A /; echo lib32; echo lib64; echo libx32) | sort -u | tr '\n' ' ')"
        same orc "home orchestrator run temp " "$(ls -A /orc | tr '\n' ' ')"
        same canaries "" "$(find / -name 'canary*' -not -path '/proc/*' 2>/dev/null)"
        same sockets "" "$(find / -type s -not -path '/proc/*' 2>/dev/null)""#,
    )
    .refused(&["root: as", "orc: as", "canaries: as", "sockets: as"]),
    sh(
        "looks for directories that others share",
        r#"same tmp "" "$(ls -A /tmp)"; same shm "" "$(ls -A /dev/shm)"
        for one in /run /var/run /var /sys /mnt /media /opt /srv /boot /root /lost+found; do tries "$one" ls "$one"; done"#,
    )
    .refused(&["tmp: as", "shm: as", "/run: No", "/var/run: No", "/var: No", "/sys: No", "/srv: No", "/boot: No", "/root: No"]),
    sh(
        "reads secrets of the system",
        r#"for one in shadow gshadow sudoers ssh machine-id fstab environment; do tries $one cat /etc/$one; done
        same keys "" "$(find /etc -name '*.key' -exec cat {} + 2>/dev/null)"; same private "" "$(ls -A /etc/ssl/private 2>/dev/null)"; same users 3 "$(wc -l </etc/passwd)""#,
    )
    .refused(&["shadow: No", "gshadow: No", "sudoers: No", "ssh: |Is a dir", "machine-id: No", "keys: as", "private: as", "users: as"]),
    sh("writes outside by a path", r#"tries write writes "$OUTSIDE/canary"; tries make writes "$OUTSIDE/made""#)
        .refused(&["write: nonexistent|No such|Directory", "make: nonexistent|No such|Directory"])
        .works_outside(),
    sh(
        "writes outside of its mounts",
        "cd /workspace; for one in ../made /made /usr/bin/made /usr/made /etc/made /dev/made /orc/made /lib/made; do
            tries $one writes $one; done
        tries homes writes ${HOME%/*}/made; tries directory mkdir /made; tries passwd writes /etc/passwd; tries hosts writes /etc/hosts",
    )
    .refused(&[
        "../made: Read-only|Permission",
        "/made: Read-only|Permission",
        "/usr/bin/made: Read-only|Permission",
        "/usr/made: Read-only|Permission",
        "/etc/made: Read-only|Permission",
        "/dev/made: Read-only|Permission",
        "/orc/made: Read-only|Permission",
        "homes: Read-only|Permission",
        "/lib/made: Read-only|Permission",
        "directory: Read-only|Permission",
        "passwd: Read-only|Permission",
        "hosts: Read-only|Permission",
    ]),
    sh(
        "reads and writes through links",
        r#"ln -s "$OUTSIDE/canary" "$WORK/file"; ln -s "$OUTSIDE" "$WORK/directory"; ln -s "$OTHERS/copy" ~/copy
        tries read cat "$WORK/file"; tries write writes "$WORK/file"; tries below writes "$WORK/directory/made"
        tries home cat ~/copy/canary"#,
    )
    .refused(&["read: No such", "write: nonexistent|No such|Directory", "below: nonexistent|No such|Directory", "home: No such"])
    .works_outside(),
    sh(
        "goes through the roots of processes",
        r#"for one in 1 self $PPID; do
            tries root-$one cat "/proc/$one/root$OUTSIDE/canary"; tries cwd-$one cat "/proc/$one/cwd/../$OUTSIDE/canary"; done
        tries up cat "$WORK/../../../../../..$OUTSIDE/canary""#,
    )
    .refused(&[
        "root-1: Permission|No such",
        "root-self: Permission|No such",
        "cwd-1: Permission|No such",
        "cwd-self: Permission|No such",
        "up: No such",
    ]),
    sh(
        "makes hard links to what it may only read",
        "tries reference ln /reference/file $WORK/link; tries program ln /orc/orchestrator $WORK/link2
        tries into ln $WORK/kept/file /reference/link",
    )
    .refused(&[
        "reference: cross-device|Read-only|not permitted",
        "program: cross-device|Read-only|not permitted",
        "into: cross-device|Read-only",
    ]),
    sh(
        "changes what it may only read",
        "tries make writes /reference/made; tries write writes /reference/file; tries append sh -c 'echo >>/reference/file'
        tries mode chmod 777 /reference/file; tries move mv /reference/file /reference/other; tries remove rm -f /reference/file
        tries time touch /reference/file; tries cut truncate -s 0 /reference/file; tries all rm -rf /reference",
    )
    .refused(&[
        "make: Read-only|Permission",
        "write: Read-only|Permission",
        "append: Read-only|Permission",
        "mode: Read-only|Permission",
        "move: Read-only|Permission",
        "remove: Read-only|Permission",
        "time: Read-only|Permission",
        "cut: Read-only|Permission",
        "all: Read-only|Permission|busy",
    ]),
    perl(
        "opens a read-only file again for writing",
        r#"open(my $file, '<', '/reference/file') or die; my $number = fileno $file;
        tried 'again', sysopen(my $again, "/proc/self/fd/$number", O_RDWR);
        tried 'chmod', chmod(0777, "/proc/self/fd/$number");
        my $handle = pack('l l C8', 8, 1, (0) x 8); my $at = pack('i', 0);
        call 'open_by_handle_at', $number, $handle, O_RDWR;"#,
    )
    .refused(&["again: EROFS|EACCES", "chmod: EROFS", "open_by_handle_at: EPERM|ENOSYS"])
    .seen(&[(orc_domain::confine::ViolationKind::Syscall, "open_by_handle_at")]),
    sh(
        "writes over the program in its box",
        "tries write writes /orc/orchestrator; tries remove rm -f /orc/orchestrator; tries move mv /orc/orchestrator /orc/other
        tries exe writes /proc/1/exe; tries read cat /proc/1/exe; tries over mv $WORK/kept/file /orc/orchestrator
        tries run rm -rf /orc/run; tries temp rm -rf /orc/temp",
    )
    .refused(&[
        "write: Read-only|Permission|busy",
        "remove: Read-only|busy|Permission",
        "move: Read-only|busy|Permission",
        "exe: Permission",
        "read: Permission",
        "run: Read-only|busy|Permission",
        "temp: Read-only|busy|Permission",
    ]),
    sh(
        "makes a masked path that does not exist",
        "tries directory mkdir $WORK/.masked/made; tries file writes $WORK/.masked/made; tries remove rm -rf $WORK/.masked
        tries move mv $WORK/.masked $WORK/open; tries link ln -sf $WORK/kept $WORK/.masked/link; tries over mv -T $WORK/kept $WORK/.masked",
    )
    .shape(|confinement, _| confinement.masked.push(inside(".masked")))
    .refused(&[
        "directory: Read-only|Permission|Not a dir",
        "file: Read-only|Permission|Not a dir|Directory",
        "remove: busy|Read-only",
        "move: busy|Read-only",
        "over: busy|Read-only|cannot",
    ]),
    sh(
        "moves the directory of a masked path away",
        "tries write writes $WORK/kept/file
        if mv $WORK/kept $WORK/away; then mkdir $WORK/kept; tries instead writes $WORK/kept/file
        else echo 'refused instead: busy'; fi",
    )
    .shape(|confinement, _| confinement.masked.push(inside("kept/file")))
    .refused(&["write: Read-only|Permission", "instead: busy"]),
    sh("sees what is masked", "same masked '' \"$(cat $WORK/kept/file 2>/dev/null)\"")
        .shape(|confinement, _| confinement.masked.push(inside("kept/file")))
        .refused(&["masked: as"]),
    sh(
        "has left a link where a mask will be",
        r#"tries list ls "$OUTSIDE"; rm -f $WORK/.masked; tries make mkdir $WORK/.masked; tries write writes $WORK/.masked/made"#,
    )
    .shape(|confinement, place| {
        link_to_outside(place, ".masked", "outside");
        confinement.masked.push(inside(".masked"));
    })
    .refused(&["list: No such", "make: ", "write: Read-only|Permission|Not a dir|Directory|nonexistent"])
    .or_no_box(),
    sh("has left a link to nothing where a mask will be", r#"rm -f $WORK/.masked; tries write writes $WORK/.masked"#)
        .shape(|confinement, place| {
            link_to_outside(place, ".masked", "outside/made");
            confinement.masked.push(inside(".masked"));
        })
        .refused(&["write: Read-only|Permission|Is a directory"])
        .or_no_box(),
    sh("has left a link above a mask", r#"rm -f $WORK/deep; mkdir $WORK/deep; tries write writes $WORK/deep/masked"#)
        .shape(|confinement, place| {
            link_to_outside(place, "deep", "outside");
            confinement.masked.push(inside("deep/masked"));
        })
        .refused(&["write: Read-only|Permission|Is a directory"])
        .or_no_box(),
    sh(
        "has left a link where something will be mounted",
        r#"tries list ls "$OUTSIDE"; rm -f $WORK/place; mkdir $WORK/place; tries write writes $WORK/place/made"#,
    )
    .shape(|confinement, place| {
        link_to_outside(place, "place", "outside");
        let source = Source::Path(place.path("reference"));
        confinement.mounts.push(Mount { source, at: inside("place"), writable: false });
    })
    .refused(&["list: No such", "write: Read-only|Permission|Not a dir"])
    .or_no_box(),
    sh("has left a link above where something will be mounted", r#"tries list ls "$OUTSIDE"; tries write writes $WORK/deep/made/file"#)
        .shape(|confinement, place| {
            link_to_outside(place, "deep", "outside");
            let source = Source::Path(place.path("reference"));
            confinement.mounts.push(Mount { source, at: inside("deep/made"), writable: false });
        })
        .refused(&["list: No such", "write: Read-only|Permission|Not a dir|nonexistent|No such"])
        .or_no_box(),
    sh("gives a link to a file as its output", r#"ln -s "$OUTSIDE/canary" "$ORC_OUTPUT"; echo refused link: made"#)
        .leaves(Output::Refused)
        .refused(&["link: made"]),
    sh(
        "gives links to the system as its output",
        r#"ln -s /proc/1/environ "$ORC_OUTPUT"; ln -sf /etc/passwd "$ORC_OUTPUT"; echo refused link: made"#,
    )
    .leaves(Output::Refused)
    .refused(&["link: made"]),
    sh("gives a pipe as its output", r#"mkfifo "$ORC_OUTPUT"; echo refused pipe: made"#)
        .leaves(Output::Refused)
        .refused(&["pipe: made"]),
    sh("gives a directory as its output", r#"mkdir -p "$ORC_OUTPUT/deep"; echo refused directory: made"#)
        .leaves(Output::Refused)
        .refused(&["directory: made"]),
    sh("gives a device as its output", r#"tries device mknod "$ORC_OUTPUT" c 1 5; ln -s /dev/zero "$ORC_OUTPUT""#)
        .leaves(Output::Refused)
        .refused(&["device: not permitted|Permission"]),
    sh("gives too much as its output", r#"head -c 2000000 /dev/zero >"$ORC_OUTPUT"; echo refused all: written"#)
        .leaves(Output::TooLarge)
        .refused(&["all: written"]),
    sh("gives a file with a hole as its output", r#"truncate -s 100M "$ORC_OUTPUT"; echo refused hole: made"#)
        .leaves(Output::TooLarge)
        .refused(&["hole: made"]),
    sh(
        "exchanges its output all the time",
        r#"(while :; do ln -sf "$OUTSIDE/canary" "$ORC_OUTPUT"; rm -f "$ORC_OUTPUT"; done) &
        i=0; while [ $i -lt 200 ]; do i=$((i+1)); done; kill $!; wait $! 2>/dev/null; rm -f "$ORC_OUTPUT"; echo refused race: lost"#,
    )
    .refused(&["race: lost"]),
];

/// A link in the copy to a place outside, as bubblewrap sees it while it mounts.
fn link_to_outside(place: &Place, name: &str, target: &str) {
    let target = place.path("../..").canonicalize().unwrap().join(target);
    symlink(PathBuf::from("/oldroot").join(target.strip_prefix("/").unwrap()), place.path("copy").join(name)).unwrap();
}
