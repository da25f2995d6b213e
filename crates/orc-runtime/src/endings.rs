//! From how a process ended to what its run means. The family of a failure is decided here, once.

use orc_domain::graph::MAX_OUTPUT_BYTES;
use orc_domain::input::Ending;
use orc_domain::outputs::parse_outputs;
use orc_domain::run::{Cause, ErrorFamily, Failure};
use orc_ports::executor::{Exit, OutputFile, Report, StartError};

/// What a finished process means.
pub(crate) fn ending_of(report: &Report) -> Ending {
    let failed = |cause, detail: &str| {
        Ending::Failed(Failure { family: ErrorFamily::Unknown, cause, detail: detail.to_owned() })
    };
    match report.exit {
        Exit::Signal(signal) => failed(Cause::Signal(signal), &report.last_line),
        Exit::Code(0) => match &report.output {
            OutputFile::Bytes(bytes) => match parse_outputs(bytes) {
                Ok(output) if output.json_len() <= MAX_OUTPUT_BYTES => Ending::Delivered { output },
                Ok(output) => failed(Cause::Output, &too_large(output.json_len() as u64)),
                Err(error) => failed(Cause::Output, &error.to_string()),
            },
            OutputFile::TooLarge { bytes } => failed(Cause::Output, &too_large(*bytes)),
            OutputFile::Unreadable { why } => failed(Cause::Output, why),
        },
        Exit::Code(code) => failed(Cause::Exit(code), &report.last_line),
    }
}

/// What a process that could not be started means.
pub(crate) fn ending_of_start(error: &StartError) -> Ending {
    let mut detail = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        detail = format!("{detail}: {cause}");
        source = cause.source();
    }
    Ending::Failed(Failure { family: ErrorFamily::SandboxInfrastructure, cause: Cause::Start, detail })
}

fn too_large(bytes: u64) -> String {
    format!("$ORC_OUTPUT has {bytes} bytes, a step may put out {MAX_OUTPUT_BYTES}; write a file for more")
}

#[cfg(test)]
mod tests {
    use super::*;
    use orc_domain::ids::RunId;
    use orc_domain::value::Value;
    use uuid::Uuid;

    fn report(exit: Exit, output: OutputFile) -> Report {
        let run = RunId::from_uuid(Uuid::nil());
        Report { run, exit, output, last_line: "boom".to_owned(), escaped: 0, violations: Vec::new(), log_error: None }
    }

    fn cause(ending: &Ending) -> Option<&Cause> {
        match ending {
            Ending::Failed(failure) => Some(&failure.cause),
            Ending::Delivered { .. } | Ending::NoDeliverable { .. } | Ending::Blocked { .. } => None,
        }
    }

    #[test]
    fn an_exit_code_of_zero_is_delivery_only_with_outputs_that_can_be_read() {
        let good = ending_of(&report(Exit::Code(0), OutputFile::Bytes(b"n=1\n".to_vec())));
        assert!(matches!(&good, Ending::Delivered { output: Value::Map(map) } if map["n"] == Value::Int(1)));
        for output in [OutputFile::Bytes(b"no equals sign\n".to_vec()), OutputFile::TooLarge { bytes: 1 << 40 }] {
            assert_eq!(cause(&ending_of(&report(Exit::Code(0), output))), Some(&Cause::Output));
        }
    }

    #[test]
    fn text_in_the_output_never_makes_an_upstream_failure() {
        let mut said_429 = report(Exit::Code(3), OutputFile::Bytes(Vec::new()));
        said_429.last_line = "error on line 429: no capacity".to_owned();
        let Ending::Failed(failure) = ending_of(&said_429) else { panic!("exit code 3 is a failure") };
        assert_eq!((failure.family, failure.cause), (ErrorFamily::Unknown, Cause::Exit(3)));
    }
}
