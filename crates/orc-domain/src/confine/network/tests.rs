use proptest::prelude::*;

use super::*;

fn target(text: &str) -> Target {
    Target::parse(text, Some(443)).unwrap()
}

fn entry(text: &str) -> Entry {
    text.parse().unwrap()
}

fn rules(entries: &[&str]) -> Rules {
    Rules::compile(&entries.iter().map(|&entry| entry.to_owned()).collect(), false).unwrap()
}

#[test]
fn an_entry_means_one_host_or_what_is_below_one() {
    let cases = [
        ("example.com", "example.com", true),
        ("example.com", "example.com:80", true),
        ("example.com", "example.com:8443", false),
        ("example.com", "www.example.com", false),
        ("example.com", "example.com.evil.org", false),
        ("example.com", "notexample.com", false),
        ("example.com", "EXAMPLE.Com.", true),
        ("Example.COM.", "example.com", true),
        ("*.example.com", "example.com", false),
        ("*.example.com", "a.example.com", true),
        ("*.example.com", "a.b.example.com", true),
        ("*.example.com", "aexample.com", false),
        ("*.example.com:8443", "a.example.com:8443", true),
        ("*.example.com:8443", "a.example.com:443", false),
        ("example.com:8443", "example.com:8443", true),
        ("example.com:8443", "example.com:443", false),
        ("bücher.example", "xn--bcher-kva.example", true),
        ("XN--BCHER-KVA.example", "xn--bcher-kva.example", true),
        ("ｅｘａｍｐｌｅ。com", "example.com", true),
        ("my_bucket.example.com", "my_bucket.example.com", true),
        ("93.184.216.34", "93.184.216.34", true),
        ("93.184.216.34", "[::ffff:93.184.216.34]", true),
        ("2606:4700::1111", "[2606:4700:0::1111]:443", true),
        ("[2606:4700::1111]:8443", "[2606:4700::1111]:8443", true),
        ("[2606:4700::1111]:8443", "[2606:4700::1111]", false),
        ("*.example.com", "93.184.216.34", false),
        ("10.0.0.7:5000", "10.0.0.7:5000", true),
        ("localhost:5000", "localhost:5000", true),
    ];
    for (ours, theirs, wanted) in cases {
        assert_eq!(entry(ours).allows(&target(theirs)), wanted, "{ours} and {theirs}");
    }
}

#[test]
fn an_entry_that_means_nothing_says_why() {
    let cases = [
        ("", "names no host: the host is empty"),
        (":443", "names no host: the host is empty"),
        ("https://example.com", "write the host alone"),
        ("example.com/path", "write the host alone"),
        ("user@example.com", "write the host alone"),
        ("*", "a `*` stands only at the beginning"),
        ("*.", "names no host: the host is empty"),
        ("*.*.example.com", "a `*` stands only at the beginning"),
        ("www.*.com", "a `*` stands only at the beginning"),
        ("*.1.2.3.4", "a `*` stands only at the beginning"),
        ("*.com", "every host below a top-level name"),
        ("example.com:0", "a port is a number from 1 to 65535"),
        ("example.com:", "a port is a number from 1 to 65535"),
        ("example.com:+80", "a port is a number from 1 to 65535"),
        ("example.com:65536", "a port is a number from 1 to 65535"),
        ("example.com:080080", "a port is a number from 1 to 65535"),
        ("a b.com", "a host is made of labels"),
        ("exa\nmple.com", "a host is made of labels"),
        ("example..com", "a host is made of labels"),
        ("-a.com", "a host is made of labels"),
        ("1.2.3", "a name does not end in a number"),
        ("0x7f.1", "a name does not end in a number"),
        ("127.0.0.01", "a name does not end in a number"),
        ("2130706433", "a name does not end in a number"),
        ("a.0x7f", "a name does not end in a number"),
        ("[::1%lo]", "holds an IPv6 address without a zone"),
        ("[::1", "an IPv6 address stands in `[...]`"),
        ("[::1x]", "holds an IPv6 address without a zone"),
        ("169.254.169.254", "cannot be allowed: a link-local address"),
        ("[::ffff:169.254.169.254]:80", "cannot be allowed: a link-local address"),
        ("fd00:ec2::254", "cannot be allowed: the metadata of a cloud"),
        ("100.100.100.200", "cannot be allowed: the metadata of a cloud"),
        ("Metadata.Google.Internal.", "cannot be allowed: the metadata of a cloud"),
        ("0.0.0.0", "cannot be allowed: the unspecified address"),
    ];
    for (text, wanted) in cases {
        let error = text.parse::<Entry>().unwrap_err();
        let source = std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
        let message = format!("{error}{source}");
        assert!(message.contains(wanted), "{text}: {message}");
        assert!(!message.contains('\n'), "{text}: {message}");
    }
}

#[test]
fn addresses_are_what_they_are_in_every_disguise() {
    use Class::{Broadcast, LinkLocal, Loopback, Metadata, Multicast, Private, Public, Reserved, Unspecified};
    let cases = [
        ("93.184.216.34", Public),
        ("8.8.8.8", Public),
        ("172.15.255.255", Public),
        ("172.16.0.0", Private),
        ("172.31.255.255", Private),
        ("172.32.0.0", Public),
        ("10.255.0.1", Private),
        ("192.168.1.1", Private),
        ("100.64.0.1", Private),
        ("100.127.255.255", Private),
        ("100.128.0.0", Public),
        ("100.63.255.255", Public),
        ("127.0.0.1", Loopback),
        ("127.255.255.254", Loopback),
        ("0.0.0.0", Unspecified),
        ("0.1.2.3", Unspecified),
        ("169.254.0.1", LinkLocal),
        ("169.254.169.254", LinkLocal),
        ("169.253.255.255", Public),
        ("100.100.100.200", Metadata),
        ("168.63.129.16", Metadata),
        ("192.0.0.192", Metadata),
        ("224.0.0.1", Multicast),
        ("239.255.255.255", Multicast),
        ("240.0.0.1", Reserved),
        ("255.255.255.255", Broadcast),
        ("192.0.2.1", Reserved),
        ("2606:4700::1111", Public),
        ("::", Unspecified),
        ("::1", Loopback),
        ("::7f00:1", Loopback),
        ("::ffff:127.0.0.1", Loopback),
        ("::ffff:0:10.0.0.1", Private),
        ("::ffff:169.254.169.254", LinkLocal),
        ("::ffff:100.100.100.200", Metadata),
        ("::ffff:8.8.8.8", Public),
        ("64:ff9b::a00:1", Private),
        ("64:ff9b::a9fe:a9fe", LinkLocal),
        ("64:ff9b::808:808", Public),
        ("64:ff9b:1::1", Private),
        ("2002:7f00:1::", Loopback),
        ("2002:a9fe:a9fe::1", LinkLocal),
        ("2002:808:808::1", Public),
        ("2001:0:1::1", Reserved),
        ("2001:db8::1", Reserved),
        ("fe80::1", LinkLocal),
        ("febf::1", LinkLocal),
        ("fec0::1", Private),
        ("fc00::1", Private),
        ("fdff::1", Private),
        ("fd00:ec2::254", Metadata),
        ("fd20:ce::254", Metadata),
        ("ff02::1", Multicast),
        ("4000::1", Reserved),
    ];
    for (text, wanted) in cases {
        assert_eq!(Class::of(text.parse().unwrap()), wanted, "{text}");
    }
}

#[test]
fn what_is_not_allowed_says_why_and_how() {
    let rules = rules(&["example.com", "*.google.internal", "10.0.0.7"]);
    let cases = [
        ("example.com:443", Ok(())),
        ("example.com:8443", Err(Refusal::Port)),
        ("example.org:443", Err(Refusal::NotListed)),
        ("a.google.internal:80", Ok(())),
        ("metadata.google.internal:80", Err(Refusal::Never(Class::Metadata))),
        ("METADATA.google.internal.:80", Err(Refusal::Never(Class::Metadata))),
        ("169.254.169.254:80", Err(Refusal::Never(Class::LinkLocal))),
        ("10.0.0.7:80", Ok(())),
        ("10.0.0.8:80", Err(Refusal::NotListed)),
    ];
    for (text, wanted) in cases {
        assert_eq!(rules.admit(&target(text)), wanted, "{text}");
    }
    let inside = Refusal::Inside(Class::Private, "10.0.0.9".parse().unwrap());
    assert_eq!(rules.admit_address("10.0.0.9".parse().unwrap(), 443), Err(inside));
    assert_eq!(rules.admit_address("10.0.0.7".parse().unwrap(), 443), Ok(()));
    assert_eq!(rules.admit_address("::ffff:10.0.0.7".parse().unwrap(), 443), Ok(()));
    assert!(rules.admit_address("10.0.0.7".parse().unwrap(), 22).is_err());
    assert!(Refusal::Port.remedy(&target("example.com:8443")).contains("`example.com:8443`"));
    assert!(Refusal::NotListed.remedy(&target("example.org:443")).contains("`example.org`"));
    assert!(inside.remedy(&target("db.example.com:443")).contains("`10.0.0.9`"));
}

#[test]
fn private_addresses_can_be_allowed_as_a_whole_but_not_the_keys_of_a_machine() {
    let rules = Rules::compile(&BTreeSet::from(["db.example.com".to_owned()]), true).unwrap();
    for (address, wanted) in
        [("10.0.0.9", true), ("127.0.0.1", true), ("::1", true), ("169.254.169.254", false), ("0.0.0.0", false)]
    {
        assert_eq!(rules.admit_address(address.parse().unwrap(), 443).is_ok(), wanted, "{address}");
    }
    assert_eq!(rules.admit(&target("10.0.0.9:443")), Err(Refusal::NotListed));
}

/// Names that are near each other, so that chance finds the wrong match if there is one.
fn near_name() -> impl Strategy<Value = String> {
    prop::collection::vec(prop_oneof!["[ab]{1,2}", Just("example".to_owned()), Just("com".to_owned())], 2..5)
        .prop_map(|labels| labels.join("."))
}

#[test]
fn an_entry_covers_what_means_no_more_than_it() {
    let cases = [
        ("example.com", "example.com", true),
        ("example.com", "EXAMPLE.com:443", true),
        ("example.com", "example.com:8443", false),
        ("example.com:443", "example.com", false),
        ("example.com:443", "example.com:443", true),
        ("example.com", "a.example.com", false),
        ("*.example.com", "a.example.com", true),
        ("*.example.com", "example.com", false),
        ("*.example.com", "*.example.com", true),
        ("*.example.com", "*.a.example.com:80", true),
        ("*.a.example.com", "*.example.com", false),
        ("a.example.com", "*.a.example.com", false),
        ("8.8.8.8", "8.8.8.8", true),
    ];
    for (above, entry, wanted) in cases {
        let entry_of = |text: &str| text.parse::<Entry>().unwrap();
        assert_eq!(entry_of(above).covers(&entry_of(entry)), wanted, "{above} {entry}");
    }
}

proptest! {
    #[test]
    fn reading_never_panics_and_reads_its_own_form(text in ".{0,40}") {
        if let Ok(entry) = text.parse::<Entry>() {
            prop_assert_eq!(entry.to_string().parse::<Entry>(), Ok(entry));
        }
        if let Ok(host) = Host::parse(&text) {
            prop_assert_eq!(Host::parse(&host.to_string()), Ok(host));
        }
        let _ = Target::parse(&text, None);
    }

    #[test]
    fn texts_of_the_right_characters_never_panic(text in r"[\[\]:.*0-9a-fx%-]{0,24}") {
        if let Ok(entry) = text.parse::<Entry>() {
            prop_assert_eq!(entry.to_string().parse::<Entry>(), Ok(entry));
        }
        let _ = Target::parse(&text, None);
    }

    #[test]
    fn no_entry_allows_another_host(ours in near_name(), below in any::<bool>(), theirs in near_name(), port in 1_u16..) {
        let entry: Entry = format!("{}{ours}", if below { "*." } else { "" }).parse().unwrap();
        let asked = Target { host: Host::parse(&theirs).unwrap(), port };
        // The same question by labels instead of by text.
        let (ours, theirs): (Vec<_>, Vec<_>) = (ours.split('.').collect(), theirs.split('.').collect());
        let named = if below { theirs.len() > ours.len() && theirs.ends_with(&ours) } else { theirs == ours };
        prop_assert_eq!(entry.allows(&asked), named && matches!(port, 80 | 443));
    }

    #[test]
    fn what_carries_an_address_is_no_better_than_it(bits in any::<u32>()) {
        let carried = Ipv4Addr::from_bits(bits);
        let [a, b, c, d] = carried.octets();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let disguises = [
            carried.to_ipv6_mapped(),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
        ];
        for disguise in disguises {
            prop_assert_eq!(Class::of(disguise.into()), Class::of(carried.into()), "{}", disguise);
        }
    }

    #[test]
    fn nothing_of_the_worst_kind_is_ever_admitted(bits in any::<u32>(), private in any::<bool>()) {
        let address = IpAddr::from(Ipv4Addr::from_bits(bits));
        let rules = Rules { entries: vec![Entry { host: Host::Address(address), below: false, port: None }], allow_private: private };
        let admitted = rules.admit_address(address, 443).is_ok();
        prop_assert_eq!(admitted, Class::of(address).may_be_allowed());
    }
}
