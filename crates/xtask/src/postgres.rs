//! A PostgreSQL server for one run of the tests: in a temporary folder, on a unix socket only, gone afterwards.
//!
//! The server and its folder belong to a small shell process, the keeper, which waits on a pipe that this process holds.
//! However this process ends (return, panic, Ctrl-C, kill -9), the pipe closes, the keeper stops the server and removes
//! the folder. PostgreSQL refuses to run as root; root starts the keeper as the user `nobody`.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::command;

/// What the keeper does: `$1` is the folder of the programs, `$2` our folder. `postmaster.pid` says `ready` in its last
/// line once the server accepts connections; `started` is written for our side, which reads it line by line.
const KEEPER: &str = r#"
trap '' INT TERM HUP
finish() { [ -z "$server" ] || { kill -QUIT "$server"; wait "$server"; } 2>/dev/null; rm -rf "$2"; }
"$1/initdb" -D "$2/data" -U orc -A trust -E UTF8 --locale=C --no-sync >"$2/initdb.log" 2>&1 || {
    echo failed; cat "$2/initdb.log"; finish "$@"; exit 1
}
"$1/postgres" -D "$2/data" -k "$2" -c listen_addresses= -c fsync=off -c full_page_writes=off \
    -c synchronous_commit=off -c max_connections=200 >"$2/server.log" 2>&1 </dev/null &
server=$!
waited=0
until grep -q ready "$2/data/postmaster.pid" 2>/dev/null; do
    if ! kill -0 "$server" 2>/dev/null || [ "$waited" -ge 600 ]; then
        echo failed; cat "$2/server.log"; finish "$@"; exit 1
    fi
    waited=$((waited + 1)); sleep 0.1
done
echo started
cat >/dev/null
finish "$@"
"#;

/// A running server. Dropping it stops the server and removes its folder.
pub(crate) struct Postgres {
    keeper: Child,
    folder: TempDir,
}

impl Postgres {
    /// Starts a server with the programs in `programs` (see [`find`]).
    ///
    /// # Errors
    /// When the folder can't be made or the server does not start; its own words are in the message.
    pub(crate) fn start(programs: &Path) -> Result<Self> {
        // A short name: the path of a unix socket has at most 107 bytes.
        let folder =
            tempfile::Builder::new().prefix("orc-pg-").tempdir().context("cannot make a folder for PostgreSQL")?;
        let mut keeper = command::command("sh");
        keeper.args(["-c", KEEPER, "keeper"]).arg(programs).arg(folder.path()).current_dir(folder.path());
        keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        give_away(&mut keeper, folder.path())?;
        let mut started = Self { keeper: keeper.spawn().context("cannot start sh")?, folder };
        started.wait_until_ready()?;
        Ok(started)
    }

    /// The address for clients.
    pub(crate) fn url(&self) -> String {
        format!("postgres://orc@localhost/postgres?host={}", self.folder.path().display())
    }

    /// Reads the keeper's one line; the keeper itself gives up after a minute.
    fn wait_until_ready(&mut self) -> Result<()> {
        use std::io::{BufRead, BufReader, Read};
        let mut output = BufReader::new(self.keeper.stdout.take().context("the keeper has no output")?);
        let mut line = String::new();
        output.read_line(&mut line).context("cannot read what the keeper of PostgreSQL says")?;
        if line.trim() != "started" {
            output.read_to_string(&mut line).context("cannot read why PostgreSQL did not start")?;
            bail!("PostgreSQL did not start: {}", line.trim());
        }
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // Nothing to do when it fails: the keeper is our child and ends when its pipe is closed.
        let _ = self.keeper.wait();
    }
}

/// The folder with `initdb` and `postgres`: from `PATH`, else where Debian and Ubuntu put them, newest first.
pub(crate) fn find() -> Option<PathBuf> {
    if let Some(initdb) = command::find_program("initdb").and_then(|found| found.canonicalize().ok()) {
        return initdb.parent().map(Path::to_owned);
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = path.file_name()?.to_str()?.parse().ok()?;
            Some((version, path.join("bin"))).filter(|(_, bin)| bin.join("initdb").is_file())
        })
        .collect();
    found.sort();
    found.pop().map(|(_, bin)| bin)
}

/// As root, gives the folder to `nobody` and starts the command as that user.
fn give_away(keeper: &mut Command, folder: &Path) -> Result<()> {
    use std::os::unix::fs::{MetadataExt, chown};
    let owner = folder.metadata().context("cannot look at the folder for PostgreSQL")?.uid();
    if owner != 0 {
        return Ok(());
    }
    let users = std::fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
    let (user, group) =
        user_of(&users, "nobody").context("PostgreSQL refuses to run as root, and there is no user `nobody`")?;
    chown(folder, Some(user), Some(group)).context("cannot give the folder for PostgreSQL to `nobody`")?;
    keeper.uid(user).gid(group);
    Ok(())
}

/// User and group number of a name, from the text of `/etc/passwd`.
fn user_of(users: &str, name: &str) -> Option<(u32, u32)> {
    let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_starts_answers_and_leaves_nothing_behind() {
        let programs = find().expect("PostgreSQL is missing; install it with: cargo xtask setup");
        let server = Postgres::start(&programs).unwrap();
        let folder = server.folder.path().to_owned();
        assert!(server.url().ends_with(folder.to_str().unwrap()));
        let pid = std::fs::read_to_string(folder.join("data/postmaster.pid")).unwrap();
        let process = PathBuf::from("/proc").join(pid.lines().next().unwrap());
        std::os::unix::net::UnixStream::connect(folder.join(".s.PGSQL.5432")).unwrap();
        assert!(process.exists());
        drop(server);
        assert!(!process.exists() && !folder.exists());
    }

    #[test]
    fn a_server_that_cannot_start_says_why() {
        let error = Postgres::start(Path::new("/nonexistent")).err().unwrap();
        assert!(error.to_string().contains("initdb"), "{error}");
    }

    #[test]
    fn a_user_is_found_by_whole_name() {
        let users = "root:x:0:0::/:/bin/sh\nnobody2:x:7:8::/:/bin/sh\nnobody:x:65534:65533::/:/bin/sh\n";
        assert_eq!(user_of(users, "nobody"), Some((65534, 65533)));
        assert_eq!(user_of(users, "body"), None);
    }
}
