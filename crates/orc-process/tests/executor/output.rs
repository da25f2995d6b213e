//! What a process prints and hands on.

use orc_ports::executor::{Exit, OutputFile};
use orc_ports::log::{LogKind, MAX_LINE_BYTES};

use crate::fixture::{Fixture, log_of, texts, within};

#[tokio::test]
async fn lines_of_both_streams_keep_their_kind() {
    let mut fixture = Fixture::new();
    let script =
        "printf 'one\\n\\ntwo'; printf 'bad\\n  \\n' >&2; printf '\\377\\376\\n' >&2; printf 'worse \\n\\n' >&2";
    let (report, lines) = fixture.run(script).await;
    assert_eq!(texts(&lines, LogKind::Stdout), ["one", "", "two"]);
    assert_eq!(texts(&lines, LogKind::Stderr), ["bad", "  ", "(bytes)", "worse ", ""]);
    let parts: Vec<_> = lines.iter().filter(|line| line.part).map(|line| line.text.as_deref()).collect();
    assert_eq!(parts, [Some("two")], "only what has no end is part of a line");
    let bytes: Vec<_> = lines.iter().filter_map(|line| line.bytes.as_deref()).collect();
    assert_eq!(bytes, ["//4="]);
    assert_eq!(report.last_line, "worse");
    let (report, _) = fixture.run("echo said; echo '  ' >&2").await;
    assert_eq!(report.last_line, "said", "blank error output says nothing");
    let (report, _) = fixture.run("true").await;
    assert_eq!(report.last_line, "");
}

#[tokio::test]
async fn a_long_line_is_cut() {
    let mut fixture = Fixture::new();
    let (report, lines) = fixture.run("head -c 100000 /dev/zero | tr '\\0' x; echo; echo end").await;
    let output: Vec<_> = lines.iter().filter(|line| line.kind == LogKind::Stdout).collect();
    let sizes: Vec<_> = output.iter().map(|line| (line.text.as_ref().unwrap().len(), line.part)).collect();
    let whole = (MAX_LINE_BYTES, true);
    assert_eq!(sizes, [whole, whole, whole, whole, whole, whole, (100_000 - 6 * MAX_LINE_BYTES, false), (3, false)]);
    assert_eq!(report.last_line, "end");
}

/// Highest memory that this process ever used, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn a_gigabyte_of_output_costs_neither_memory_nor_disk() {
    let mut fixture = Fixture::new();
    let before = peak_kib();
    for script in ["head -c 1000000000 /dev/zero | tr '\\0' x", "yes | head -c 1000000000; echo the end >&2"] {
        let launch = fixture.launch(script);
        let report = within(fixture.finish(&launch)).await;
        assert_eq!((report.exit, &report.log_error), (Exit::Code(0), &None));
        let length = std::fs::metadata(&launch.log).unwrap().len();
        assert!(length < launch.limits.log_bytes + 3 * 1024 * 1024, "{length}");
        let lines = log_of(&launch);
        let bytes =
            |line: &orc_ports::log::LogLine| line.text.as_ref().map_or(0, String::len) + usize::from(!line.part);
        let kept: usize = lines.iter().filter(|line| line.kind == LogKind::Stdout).map(bytes).sum();
        let note = format!("{} bytes of output dropped", 1_000_000_000 - kept);
        assert!(texts(&lines, LogKind::Note).iter().any(|text| text.starts_with(&note)), "{note}");
    }
    assert!(peak_kib() - before < 64 * 1024, "{} KiB more than before", peak_kib() - before);
}

#[tokio::test]
async fn a_full_disk_is_reported_and_the_program_goes_on() {
    let mut fixture = Fixture::new();
    let mut launch = fixture.launch("yes | head -c 5000000; echo why >&2; exit 4");
    launch.log = fixture.path("log");
    std::os::unix::fs::symlink("/dev/full", &launch.log).unwrap();
    let report = fixture.finish(&launch).await;
    assert_eq!((report.exit, report.last_line.as_str()), (Exit::Code(4), "why"));
    let error = report.log_error.unwrap();
    assert!(error.contains("No space left on device"), "{error}");
}

#[tokio::test]
async fn the_output_file_is_read_as_it_is_left() {
    let mut fixture = Fixture::new();
    let unreadable = |why: &str| OutputFile::Unreadable { why: why.to_owned() };
    let cases = [
        ("true", OutputFile::Bytes(Vec::new())),
        ("printf 'a=1\\nb=\\377' >> $ORC_OUTPUT", OutputFile::Bytes(b"a=1\nb=\xff".to_vec())),
        ("echo a=1 > $ORC_OUTPUT; exit 1", OutputFile::Bytes(b"a=1\n".to_vec())),
        ("rm $ORC_OUTPUT", OutputFile::Bytes(Vec::new())),
        ("head -c 1024 /dev/zero > $ORC_OUTPUT", OutputFile::Bytes(vec![0; 1024])),
        ("head -c 1025 /dev/zero > $ORC_OUTPUT", OutputFile::TooLarge { bytes: 1025 }),
        ("rm $ORC_OUTPUT; mkfifo $ORC_OUTPUT", unreadable("it is not a regular file")),
        ("rm $ORC_OUTPUT; mkdir $ORC_OUTPUT", unreadable("it is not a regular file")),
        ("ln -sf /etc/passwd $ORC_OUTPUT", unreadable("it is a symbolic link")),
    ];
    for (script, wanted) in cases {
        let (report, _) = fixture.run(script).await;
        assert_eq!(report.output, wanted, "{script}");
    }
}
