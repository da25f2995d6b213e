//! How a command becomes the holder of a data directory, or learns who is.

use std::sync::Arc;

use orc_adapters::CommandAdapter;
use orc_domain::time::Millis;
use orc_gateway::ModelGateway;
use orc_harness::host::Hosts;
use orc_harness::run::BuiltInAgents;
use orc_ports::clock::Clock as _;
use orc_ports::executor::Executor;
use orc_ports::gateway::Gateway;
use orc_ports::ledger::Ledger;
use orc_ports::reader::Reader;
use orc_ports::store::StoreError;
use orc_process::ProcessExecutor;
use orc_runtime::clock::SystemClock;
use orc_runtime::control::{self, Client, Request};
use orc_runtime::data_dir::{DataDirError, DataLock, Holder, Taken};
use orc_runtime::{Dispatcher, Parts, Recovered, Router, Shape};
use orc_store_sqlite::{SqliteReader, SqliteStore, put_earlier_aside};

use crate::args::LimitArgs;
use crate::boxes;
use crate::context::Context;
use crate::failure::{CommandResult, Failure, unavailable};
use crate::feed::of_dispatcher;
use crate::host;
use crate::output::say;
use crate::rulebook::FileRulebook;

/// How long a holder may take to answer: it may have ten thousand flows to look at first.
pub(crate) const PATIENCE: Millis = Millis::from_secs(15);
/// What helps against a damaged database.
pub(crate) const PUT_BACKUP: &str =
    "put a backup in the place of the database, or name another data directory with --data";
/// Pause between two looks at the lock.
const LOOK_AGAIN: Millis = Millis::from_millis(25);

/// This process holds the directory and carries flows on.
pub(crate) struct Held {
    pub(crate) dispatcher: Dispatcher,
    pub(crate) recovered: Recovered,
    /// The way to models.
    pub(crate) gateway: ModelGateway,
    _lock: DataLock,
}

/// Who carries flows on.
pub(crate) enum Access {
    /// We do.
    Ours(Box<Held>),
    /// Another process does.
    Theirs(Option<Holder>),
}

/// Takes the directory if nobody holds it: makes it, opens the store, tells the truth about what a dead instance left.
pub(crate) async fn open(context: &Context, shape: Shape) -> CommandResult<Access> {
    let data = &context.data;
    data.make().map_err(of_data_dir)?;
    let clock = host::clock();
    let (instance, worktrees) = context.next_instance();
    let command = shape.command.clone();
    let holder = Holder { pid: std::process::id(), instance, command, since: clock.now() };
    let lock = match take(context, &holder).await? {
        Taken::Ours(lock) => lock,
        Taken::Held(who) => return Ok(Access::Theirs(who)),
    };
    if let Some(aside) = put_earlier_aside(&data.database()).map_err(of_store)? {
        say(&format!(
            "the database was written before version 0.1 was complete and cannot be read: it is kept as {}, and a new one begins",
            aside.display()
        ));
    }
    let store = SqliteStore::open(&data.database()).await.map_err(of_store)?;
    let reader = SqliteReader::open(&data.database()).await.map_err(of_store)?;
    let router = Arc::new(Router::new(Arc::clone(&clock)));
    let settings = context.settings(&LimitArgs::default())?;
    let boxes = boxes::sandbox(&settings);
    let executor = ProcessExecutor::with_boxes(instance, Arc::clone(&clock), router.reports(), boxes);
    let executor = executor.map_err(|error| unavailable("cannot start processes").because(error))?;
    let store = Arc::new(store);
    let models = context.gateway_shape(&settings.models, instance)?;
    let ledger: Arc<dyn Ledger> = Arc::clone(&store) as Arc<dyn Ledger>;
    let gateway = ModelGateway::new(models, Arc::clone(&ledger), Arc::clone(&clock));
    let gateway = gateway.map_err(|error| unavailable("cannot begin the model gateway").because(error))?;
    let executor: Arc<dyn Executor> = Arc::new(executor);
    let hosts = Hosts::new(Arc::clone(&executor), Arc::clone(&clock));
    let model_gateway: Arc<dyn Gateway> = Arc::new(gateway.clone());
    let harness = BuiltInAgents::new(instance, Arc::clone(&model_gateway), Arc::clone(&clock), Arc::new(hosts));
    let parts = Parts {
        store,
        reader: Arc::new(reader) as Arc<dyn Reader>,
        executor,
        harness: Arc::new(harness),
        worktrees,
        gateway: model_gateway,
        ledger,
        adapter: Arc::new(CommandAdapter),
        notifier: Arc::new(context.notifier()?),
        rulebook: Arc::new(FileRulebook::of(context)),
        clock,
        router,
        data: data.clone(),
        shape,
        instance,
    };
    let (dispatcher, recovered) = Dispatcher::open(parts).await.map_err(of_dispatcher)?;
    control::listen(&dispatcher, &data.socket(), holder)
        .map_err(|error| unavailable("other commands could not reach this one").because(error))?;
    Ok(Access::Ours(Box::new(Held { dispatcher, recovered, gateway, _lock: lock })))
}

/// Takes the lock, or finds a holder that answers. Whoever has the lock and does not answer has just begun, is about to
/// end, or only looks whether somebody has it: a moment later things are clear. Or it was stopped, and nothing gets clear.
async fn take(context: &Context, holder: &Holder) -> CommandResult<Taken> {
    let looking = async {
        loop {
            match context.data.lock(holder).map_err(of_data_dir)? {
                Taken::Held(who) if !answers(context).await => drop(who),
                taken => return Ok(taken),
            }
            SystemClock.sleep(LOOK_AGAIN).await;
        }
    };
    tokio::select! {
        taken = looking => taken,
        () = SystemClock.sleep(PATIENCE) => {
            let who = describe(context.data.holder().as_ref(), context);
            let what = format!("{} is held by {who}, which does not answer", context.data.root().display());
            Err(unavailable(what).hint("end that process, or name another data directory with --data"))
        }
    }
}

async fn answers(context: &Context) -> bool {
    match Client::ask(&context.data.socket(), &Request::Hello).await {
        Ok(mut client) => client.next().await.is_ok(),
        Err(_) => false,
    }
}

impl Held {
    /// Ends in order: flows stop where they are, what still runs is killed, the store is made durable, the lock is given
    /// back. A run that was killed so is lost, not failed: the next holder tells its flow.
    pub(crate) async fn close(self) -> CommandResult<()> {
        let damaged = self.dispatcher.is_damaged();
        self.dispatcher.close().await.map_err(of_dispatcher)?;
        if damaged {
            let hint = "the log above says where; `orchestrator flows resume --all` carries on what is unfinished";
            return Err(unavailable("a part of the program broke off (a bug in it)").hint(hint));
        }
        Ok(())
    }
}

/// A data directory that cannot be used.
pub(crate) fn of_data_dir(error: DataDirError) -> Failure {
    let hint = "name another one with --data or ORC_DATA, or make this one writable";
    unavailable("the data directory cannot be used").because(error).hint(hint)
}

/// A store that cannot be used.
pub(crate) fn of_store(error: StoreError) -> Failure {
    let hint = match &error {
        StoreError::Full { .. } => "make room on the disk, then run the command again: nothing recorded is lost",
        StoreError::ReadOnly { .. } => "make the data directory writable, or name another one with --data",
        StoreError::Newer { .. } => "use the newer program, or name another data directory with --data",
        StoreError::Damaged { .. } => PUT_BACKUP,
        StoreError::Corrupt { .. } => "`orchestrator db check` looks at every row; a backup may be the way back",
        _ => "`orchestrator doctor` checks the data directory",
    };
    unavailable("the store cannot be used").because(error).hint(hint)
}

/// `process 4711 (run, since 12s)`.
pub(crate) fn describe(holder: Option<&Holder>, context: &Context) -> String {
    match holder {
        Some(holder) => {
            let age = context.now().since(holder.since);
            format!("process {} (`{}`, for {age})", holder.pid, holder.command)
        }
        None => "a process that has just begun".to_owned(),
    }
}
