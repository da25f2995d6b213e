use proptest::prelude::*;

use super::*;

/// What a filter says to a call: an own reading of the few instructions that we use.
fn run(filter: &[Instruction], architecture: u32, attempt: &Attempt) -> u32 {
    let mut words = vec![u32::try_from(attempt.call & 0xffff_ffff).unwrap(), architecture, 0, 0];
    for argument in attempt.arguments {
        words.extend([u32::try_from(argument & 0xffff_ffff).unwrap(), u32::try_from(argument >> 32).unwrap()]);
    }
    let (mut at, mut held) = (0, 0);
    loop {
        let Instruction { code, if_true, if_false, value } = filter[at];
        let jump = |holds: bool| usize::from(if holds { if_true } else { if_false });
        at += 1 + match code {
            LOAD => {
                assert_eq!(value % 4, 0);
                held = words[value as usize / 4];
                0
            }
            EQUAL => jump(held == value),
            AT_LEAST => jump(held >= value),
            ANY_BIT => jump(held & value != 0),
            END => return value,
            other => panic!("no such instruction: {other}"),
        };
    }
}

fn says(call: i64, arguments: [u64; 6]) -> u32 {
    run(&filter(), OURS, &Attempt { call, arguments })
}

fn expected(attempt: &Attempt) -> u32 {
    match judge(attempt) {
        None => ALLOW,
        Some(Refusal { seen: true, .. }) => HAND_OVER,
        Some(Refusal { error, .. }) => ERROR | error.raw_os_error().cast_unsigned(),
    }
}

#[test]
fn other_architectures_are_the_end_and_x32_does_not_exist() {
    let harmless = Attempt { call: libc::SYS_getpid, arguments: [0; 6] };
    assert_eq!(run(&filter(), OURS, &harmless), ALLOW);
    // AUDIT_ARCH_I386.
    assert_eq!(run(&filter(), 0x4000_0003, &harmless), KILL_PROCESS);
    let x32 = i64::from(X32) | libc::SYS_getpid;
    assert_eq!(says(x32, [0; 6]), ERROR | 38);
    assert_eq!(says(-1, [0; 6]), ERROR | 38);
}

#[test]
fn every_rule_is_reachable_and_named_once() {
    let mut calls: Vec<i64> = RULES.iter().map(|rule| rule.call).collect();
    calls.sort_unstable();
    calls.dedup();
    assert_eq!(calls.len(), RULES.len(), "a call stands twice; the second would never be read");
    for rule in RULES {
        let most = [u64::MAX; 6];
        // A personality of all ones is the question what it is.
        let arguments = if rule.name == "personality" { [8; 6] } else { most };
        if matches!(rule.when, When::Terminal) {
            continue;
        }
        let attempt = Attempt { call: rule.call, arguments };
        assert!(judge(&attempt).is_some_and(|refusal| refusal.what.starts_with(rule.name)), "{rule:?}");
    }
}

#[test]
fn what_programs_need_is_allowed_and_its_neighbour_is_not() {
    let thread = 0x003d_0f00;
    let rows: [(i64, [u64; 3], Option<&str>); 22] = [
        (libc::SYS_clone, [thread, 0, 0], None),
        (libc::SYS_clone, [17, 0, 0], None),
        (libc::SYS_clone, [0x1000_0000 | 17, 0, 0], Some("clone: a new namespace")),
        (libc::SYS_clone, [0x0002_0000, 0, 0], Some("clone: a new namespace")),
        // CLONE_FILES: its own descriptors.
        (libc::SYS_unshare, [0x400, 0, 0], None),
        (libc::SYS_unshare, [0x80, 0, 0], Some("unshare: a new namespace")),
        (libc::SYS_unshare, [0x0200_0000, 0, 0], Some("unshare: a new namespace")),
        (libc::SYS_socket, [1, 1, 0], None),
        (libc::SYS_socket, [2, 1, 6], None),
        (libc::SYS_socket, [10, 2, 17], None),
        (libc::SYS_socket, [16, 3, 0], None),
        (libc::SYS_socket, [16, 3, 9], Some("socket: AF_NETLINK")),
        (libc::SYS_socket, [40, 1, 0], Some("socket: AF_VSOCK")),
        (libc::SYS_socket, [44, 1, 0], Some("socket: family 44")),
        // The kernel looks at the lower half only, and so do we.
        (libc::SYS_socket, [(1 << 32) | 40, 1, 0], Some("socket: AF_VSOCK")),
        (libc::SYS_socket, [1 << 31, 1, 0], Some("socket: an unknown family")),
        (libc::SYS_socketpair, [1, 1, 0], None),
        (libc::SYS_ioctl, [0, 0x5401, 0], None),
        (libc::SYS_ioctl, [0, 0x5412, 0], Some("ioctl: TIOCSTI")),
        (libc::SYS_ioctl, [0, (7 << 32) | 0x5412, 0], Some("ioctl: TIOCSTI")),
        (libc::SYS_personality, [0xffff_ffff, 0, 0], None),
        (libc::SYS_personality, [8, 0, 0], Some("personality: another kernel's ways")),
    ];
    for (call, [first, second, third], wanted) in rows {
        let attempt = Attempt { call, arguments: [first, second, third, 0, 0, 0] };
        assert_eq!(judge(&attempt).as_ref().map(|refusal| &*refusal.what), wanted, "{attempt:?}");
        assert_eq!(says(call, attempt.arguments), expected(&attempt), "{attempt:?}");
    }
}

proptest! {
    #[test]
    fn the_filter_says_what_the_list_says(
        index in 0..RULES.len(),
        other in 0_i64..600,
        listed: bool,
        arguments in prop::array::uniform6(prop_oneof![any::<u64>(), 0_u64..64, Just(0x5412), Just(0x4_0000)]),
    ) {
        let call = if listed { RULES[index].call } else { other };
        let attempt = Attempt { call, arguments };
        prop_assert_eq!(says(call, arguments), expected(&attempt));
    }
}
