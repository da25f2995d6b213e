//! `doctor --fix`: the user that boxes run as, and who may read the data directory. Nothing else is changed.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use orc_process::sandbox::BoxUser;

use super::Finding;
use super::trial::Trial;
use crate::boxes;
use crate::context::Context;
use crate::host;

/// Makes a user of the system that can log in nowhere and owns nothing, with whichever program there is. BusyBox has an
/// `adduser` of its own, with other options.
const MAKE_USER: &str = "\
PATH=/usr/sbin:/sbin:/usr/bin:/bin
name=orchestrator-box
if command -v useradd >/dev/null; then
  useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin \"$name\"
elif ! command -v adduser >/dev/null; then
  echo 'neither useradd nor adduser is here'
  exit 1
elif adduser --help 2>&1 | grep -q BusyBox; then
  addgroup -S \"$name\" && adduser -S -D -H -h /nonexistent -s /sbin/nologin -G \"$name\" \"$name\"
else
  adduser --system --group --no-create-home --home /nonexistent --shell /usr/sbin/nologin \"$name\"
fi
";

/// Mends what can be mended; a finding for each thing that was changed or could not be.
pub(super) async fn mend(context: &Context, trial: Option<&Trial>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = data_directory(context.data.root()).into_iter().collect();
    if host::user() == 0 && boxes::box_user().is_none() {
        findings.push(match trial {
            Some(trial) => box_user(trial).await,
            None => Finding::fail(USER, "was not made: no process can be started", "see `processes`"),
        });
    }
    findings
}

const USER: &str = "box user";

async fn box_user(trial: &Trial) -> Finding {
    let name = BoxUser::NAME;
    let said = trial.last_line(MAKE_USER).await;
    // What counts is whether it is there now, not what a program said.
    match (boxes::box_user(), said) {
        (Some(user), _) => Finding::fixed(USER, format!("made `{name}` (user {}, group {})", user.uid, user.gid)),
        (None, Ok(line)) => {
            let what = format!("`{name}` was made and is not in /etc/passwd: {line}");
            Finding::fail(USER, what, "make a user of that name that cannot log in, by hand")
        }
        (None, Err(why)) => Finding::fail(
            USER,
            format!("`{name}` cannot be made: {why}"),
            "make a user of that name that cannot log in, by hand",
        ),
    }
}

/// Only its owner may look into it: logs hold what steps print.
fn data_directory(root: &Path) -> Option<Finding> {
    const NAME: &str = "data directory";
    let mode = std::fs::metadata(root).ok()?.permissions().mode();
    if mode & 0o077 == 0 {
        return None;
    }
    let shown = root.display();
    Some(match std::fs::set_permissions(root, std::fs::Permissions::from_mode(0o700)) {
        Ok(()) => Finding::fixed(NAME, format!("{shown} was open to others (mode {:o}) and is 0700 now", mode & 0o777)),
        Err(error) => {
            Finding::fail(NAME, format!("{shown} stays open to others: {error}"), "its owner can `chmod 700` it")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::Level;

    #[test]
    fn a_data_directory_that_others_may_read_is_closed_once() {
        let root = tempfile::tempdir().unwrap();
        std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let mended = data_directory(root.path()).unwrap();
        assert_eq!(mended.level, Level::Fixed, "{mended:?}");
        assert_eq!(std::fs::metadata(root.path()).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(data_directory(root.path()).is_none());
        assert!(data_directory(&root.path().join("missing")).is_none(), "nothing is made");
    }
}
