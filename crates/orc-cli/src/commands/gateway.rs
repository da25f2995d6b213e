//! `gateway`: the model gateway alone, so that any program of this machine can be metered.
//!
//! It holds the data directory like everything that writes to it; flows that other commands start meanwhile are carried on
//! here.

use std::io::IsTerminal as _;
use std::net::Ipv4Addr;

use orc_domain::ids::RunId;
use orc_domain::ledger::Account;
use orc_domain::meter::{Limits, Owner, Refusal};
use orc_domain::money::UsdMicros;
use orc_ports::gateway::{Gateway as _, Notice, Notices, Opening};
use tokio::net::TcpListener;

use crate::args::{GatewayArgs, LimitArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, invalid, unavailable};
use crate::hold::{self, Access};
use crate::output::{self, say};
use crate::signals::Signals;

pub(crate) async fn run(context: &Context, args: GatewayArgs) -> CommandResult {
    let walls = walls(&args)?;
    let mut signals = Signals::new()?;
    let shape = context.shape("gateway", &LimitArgs::default())?;
    let held = match hold::open(context, shape).await? {
        Access::Ours(held) => held,
        Access::Theirs(who) => {
            let who = hold::describe(who.as_ref(), context);
            let what = format!("{} is held by {who}", context.data.root().display());
            return Err(unavailable(what).hint("wait for its end, or name another data directory with --data: what programs use is then in the ledger there"));
        }
    };
    let served = serve(&held, &args, walls, &mut signals).await;
    held.close().await?;
    served
}

async fn serve(
    held: &hold::Held,
    args: &GatewayArgs,
    walls: Vec<(Owner, Limits)>,
    signals: &mut Signals,
) -> CommandResult {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await;
    let taken = |error| {
        unavailable(format!("cannot listen on 127.0.0.1:{}", args.port))
            .because(error)
            .hint("name another port with --port; 0 is one that is free")
    };
    let listener = listener.map_err(taken)?;
    let port = listener.local_addr().map_err(taken)?.port();
    let run = RunId::from_uuid(uuid::Uuid::now_v7());
    let account =
        Account { run: None, flow: None, path: None, pipeline: None, agent: args.agent.clone(), ticket: None };
    let opening =
        Opening { run, account, walls, model: String::new(), notices: Notices::new(|_, notice| tell(&notice)) };
    let door = held.gateway.open(opening).await;
    let door = door.map_err(|error| unavailable("cannot open the model gateway").because(error))?;
    held.gateway.listen(listener);
    let mut lines = String::new();
    for (name, value) in door.environment(port, "") {
        if name != "ORC_MODEL" {
            lines.push_str(&format!("export {name}={value}\n"));
        }
    }
    output::text_line(&lines)?;
    if std::io::stdout().is_terminal() {
        say(
            "give these to a program, and it is metered; Ctrl-C ends the gateway, `orchestrator costs --by model` shows the ledger",
        );
    }
    let signal = signals.next().await;
    let metered = held.gateway.close(run).await;
    let usage = metered.usage;
    let calls = if usage.calls == 1 { "1 call".to_owned() } else { format!("{} calls", usage.calls) };
    say(&format!("{signal}: {calls}, {} tokens, {}", usage.tokens(), usage.cost));
    Ok(Exit::Success)
}

fn walls(args: &GatewayArgs) -> CommandResult<Vec<(Owner, Limits)>> {
    let usd = match &args.usd {
        Some(text) => Some(UsdMicros::parse(text).ok_or_else(|| {
            invalid(format!("--usd: `{text}` is no amount of dollars"))
                .hint("write it like `5` or `0.50`, at most six decimals")
        })?),
        None => None,
    };
    let limits = Limits { usd, tokens: args.tokens, calls: args.calls };
    Ok(if limits.is_none() { Vec::new() } else { vec![(Owner::Gateway, limits)] })
}

fn tell(notice: &Notice) {
    match notice {
        Notice::Used(_) => {}
        Notice::Refused(Refusal::Wall { wall, short, .. }) => {
            say(&format!("refused at the wall `{}`: {}", wall.word(), short.told(*wall)))
        }
        Notice::Refused(Refusal::Unpriced { .. }) => {
            say("refused: nobody knows what this model costs, and --usd limits money; name its price in `prices:`")
        }
        Notice::Parked { provider, until, why } => {
            say(&format!("the provider `{provider}` takes no calls until {until}: {why}"))
        }
    }
}
