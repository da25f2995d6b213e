//! Attempts at the network: directly, by name, and through the proxy.

use orc_domain::confine::ViolationKind::{Network, Syscall};
use orc_ports::executor::{Confinement, Door};

use crate::attempt::{Attempt, perl, sh};
use crate::world::Place;

/// Hosts that a box may ask the proxy for. None of them is ever connected to: a name that is reserved for being nothing, one
/// that means the machine itself, and addresses that mean it or its neighbours.
fn with_network(confinement: &mut Confinement, _: &Place) {
    confinement.network = ["allowed.invalid", "localhost"].map(str::to_owned).into();
}

/// A door, where nobody listens any more.
fn with_door(confinement: &mut Confinement, place: &Place) {
    let socket = place.path("door");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    confinement.doors = vec![Door { socket, port: 8080 }];
}

pub(crate) const ATTEMPTS: &[Attempt] = &[
    perl(
        "connects to what listens on the machine",
        r#"connects 'loopback', AF_INET, pack_sockaddr_in($ENV{PORT}, inet_aton('127.0.0.1'));
        connects 'own', AF_INET, pack_sockaddr_in($ENV{PORT}, inet_aton($ENV{ADDRESS}));"#,
    )
    .refused(&["loopback: ECONNREFUSED|ENETUNREACH|EACCES", "own: ENETUNREACH|ECONNREFUSED|EACCES"])
    .works_outside(),
    perl(
        "connects over IPv6",
        r#"my $loopback = Socket::inet_pton(AF_INET6, '::1'); connects 'loopback', AF_INET6, pack_sockaddr_in6($ENV{PORT}, $loopback);
        for (qw(::ffff:127.0.0.1 2001:db8::1 fd00:ec2::254 fe80::1)) {
            connects $_, AF_INET6, pack_sockaddr_in6($ENV{PORT}, Socket::inet_pton(AF_INET6, $_)) }"#,
    )
    .refused(&[
        "loopback: ECONNREFUSED|EADDRNOTAVAIL|EAFNOSUPPORT|ENETUNREACH|EACCES",
        "::ffff:127.0.0.1: ECONNREFUSED|ENETUNREACH|EACCES|EAFNOSUPPORT",
        "2001:db8::1: ENETUNREACH|EACCES|EADDRNOTAVAIL|EAFNOSUPPORT",
        "fd00:ec2::254: ENETUNREACH|EACCES|EADDRNOTAVAIL|EAFNOSUPPORT",
        "fe80::1: ",
    ]),
    perl(
        "connects to addresses elsewhere",
        r#"for (qw(192.0.2.1 198.51.100.1 169.254.169.254 100.100.100.200 10.0.0.1)) {
            connects $_, AF_INET, pack_sockaddr_in(80, inet_aton($_)) }"#,
    )
    .refused(&[
        "192.0.2.1: ENETUNREACH|EACCES",
        "198.51.100.1: ENETUNREACH|EACCES",
        "169.254.169.254: ENETUNREACH|EACCES",
        "100.100.100.200: ENETUNREACH|EACCES",
        "10.0.0.1: ENETUNREACH|EACCES",
    ]),
    perl(
        "sends datagrams",
        r#"sub sends { my ($what, $address, $port) = @_; socket(my $socket, AF_INET, SOCK_DGRAM, 0) or return tried $what, 0;
            my $sent = send($socket, 'x', 0, pack_sockaddr_in($port, inet_aton($address))); tried $what, defined $sent }
        sends 'names', '192.0.2.53', 53; sends 'metadata', '169.254.169.254', 53; sends 'own', $ENV{ADDRESS}, $ENV{UDP_PORT};
        socket(my $socket, AF_INET, SOCK_DGRAM, 0); send($socket, 'x', 0, pack_sockaddr_in($ENV{UDP_PORT}, inet_aton('127.0.0.1')));
        tell_it 'loopback', 0, 'goes nowhere';"#,
    )
    .refused(&["names: ENETUNREACH", "metadata: ENETUNREACH", "own: ENETUNREACH", "loopback: goes nowhere"]),
    perl(
        "looks names up",
        r#"for my $name (qw(one.invalid example.com metadata.google.internal)) {
            my $found = gethostbyname $name; tell_it $name, defined $found, 'unknown' }"#,
    )
    .refused(&["one.invalid: unknown", "example.com: unknown", "metadata.google.internal: unknown"]),
    perl(
        "opens sockets of other kinds",
        r#"for my $kind ([raw => AF_INET, SOCK_RAW, 1], [packet => 17, SOCK_RAW, 768], [vsock => 40, SOCK_STREAM, 0],
            [alg => 38, 5, 0], [bluetooth => 31, SOCK_RAW, 1], [can => 29, SOCK_RAW, 1], [tipc => 30, 5, 0], [rds => 21, 5, 0],
            [ax25 => 3, 5, 0], [x25 => 9, 5, 0], [xdp => 44, SOCK_RAW, 0], [nfc => 39, 5, 0], [key => 15, SOCK_RAW, 2]) {
            my ($name, $family, $type, $protocol) = @$kind; tried $name, socket(my $socket, $family, $type, $protocol) }"#,
    )
    .refused(&[
        "raw: EPERM|EACCES",
        "packet: EPERM|EACCES|EAFNOSUPPORT",
        "vsock: EPERM|EACCES|EAFNOSUPPORT",
        "alg: EPERM|EACCES|EAFNOSUPPORT",
        "bluetooth: EPERM|EACCES|EAFNOSUPPORT",
        "can: EPERM|EACCES|EAFNOSUPPORT",
        "tipc: EPERM|EACCES|EAFNOSUPPORT",
        "rds: EPERM|EACCES|EAFNOSUPPORT",
        "ax25: EPERM|EACCES|EAFNOSUPPORT",
        "x25: EPERM|EACCES|EAFNOSUPPORT",
        "xdp: EPERM|EACCES|EAFNOSUPPORT",
        "nfc: EPERM|EACCES|EAFNOSUPPORT",
        "key: EPERM|EACCES|EAFNOSUPPORT",
    ])
    .seen(&[(Syscall, "socket")]),
    perl(
        "connects to unix sockets of the machine",
        r#"connects 'path', AF_UNIX, pack_sockaddr_un($ENV{SOCKET}); connects 'name', AF_UNIX, pack_sockaddr_un("\0$ENV{NAME}");"#,
    )
    .refused(&["path: ENOENT", "name: ECONNREFUSED|EPERM"])
    .works_outside(),
    perl(
        "connects to sockets of known programs",
        r#"for (qw(/var/run/docker.sock /run/docker.sock /run/containerd/containerd.sock /run/podman/podman.sock /run/dbus/system_bus_socket
            /run/systemd/private /run/systemd/journal/socket /tmp/.X11-unix/X0 /run/snapd.socket /run/nscd/socket /var/run/nscd/socket)) {
            connects $_, AF_UNIX, pack_sockaddr_un($_) }
        connects 'X', AF_UNIX, pack_sockaddr_un("\0/tmp/.X11-unix/X0");
        my ($agent) = grep { /SSH_AUTH_SOCK|DBUS|DOCKER_HOST|XDG_RUNTIME/ } keys %ENV; tell_it 'hints', defined $agent, 'none';"#,
    )
    .refused(&["/var/run/docker.sock: ENOENT", "/run/docker.sock: ENOENT", "/run/dbus/system_bus_socket: ENOENT", "X: ECONNREFUSED", "hints: none"]),
    perl(
        "changes the network that it has",
        r#"socket(my $socket, AF_INET, SOCK_DGRAM, 0) or die; my $request = pack('a16 s a22', 'lo', 0x41, '');
        tried 'flags', ioctl($socket, 0x8914, $request); my $route = "\0" x 120; tried 'route', ioctl($socket, 0x890b, $route);
        tried 'table', open(my $file, '>', '/proc/sys/net/ipv4/ip_forward');"#,
    )
    .refused(&["flags: EPERM|EACCES", "route: EPERM|EACCES", "table: EROFS|EACCES"]),
    perl(
        "finds no proxy where none was given",
        r#"connects 'proxy', AF_INET, pack_sockaddr_in(3128, inet_aton('127.0.0.1'));
        my @found = grep { /proxy/i } keys %ENV; tell_it 'environment', scalar @found, 'nothing';"#,
    )
    .refused(&["proxy: ECONNREFUSED", "environment: nothing"]),
    perl(
        "asks the proxy for hosts that are not allowed",
        r#"sub asks { my ($what, $line) = @_; socket(my $socket, AF_INET, SOCK_STREAM, 0) or die;
            connect($socket, pack_sockaddr_in(3128, inet_aton('127.0.0.1'))) or return tell_it $what, 0, "no proxy: $!";
            syswrite $socket, "$line\r\nHost: x\r\n\r\n"; sysread $socket, my $said, 4096; $said //= '';
            my ($code) = $said =~ m{^HTTP/1\.1 (\d+)}; tell_it $what, ($code // 0) == 200, $code // 'closed' }
        asks 'host', 'CONNECT other.invalid:443 HTTP/1.1'; asks 'metadata', 'CONNECT 169.254.169.254:80 HTTP/1.1';
        asks 'plain', 'GET http://169.254.169.254/latest/meta-data/ HTTP/1.1';
        asks 'loopback', "CONNECT 127.0.0.1:$ENV{PORT} HTTP/1.1"; asks 'own', "CONNECT $ENV{ADDRESS}:$ENV{PORT} HTTP/1.1";
        asks 'six', "CONNECT [::1]:$ENV{PORT} HTTP/1.1"; asks 'mapped', "CONNECT [::ffff:127.0.0.1]:$ENV{PORT} HTTP/1.1";
        asks 'decimal', "CONNECT 2130706433:$ENV{PORT} HTTP/1.1"; asks 'hex', "CONNECT 0x7f000001:$ENV{PORT} HTTP/1.1";
        asks 'port', 'CONNECT allowed.invalid:22 HTTP/1.1'; asks 'resolved', "CONNECT localhost:443 HTTP/1.1";
        asks 'other port', "CONNECT localhost:$ENV{PORT} HTTP/1.1"; asks 'user', 'CONNECT allowed.invalid@169.254.169.254:80 HTTP/1.1';
        asks 'dot', 'CONNECT metadata.google.internal.:80 HTTP/1.1';"#,
    )
    .shape(with_network)
    .refused(&[
        "host: 403",
        "metadata: 403",
        "plain: 403",
        "loopback: 403",
        "own: 403",
        "six: 403",
        "mapped: 403",
        "decimal: 40",
        "hex: 40",
        "port: 403",
        "resolved: 403",
        "other port: 403",
        "user: 40",
        "dot: 403",
    ])
    .seen(&[
        (Network, "other.invalid"),
        (Network, "169.254.169.254"),
        (Network, "127.0.0.1"),
        (Network, "allowed.invalid:22"),
        (Network, "localhost"),
        (Network, "metadata.google.internal"),
        (Network, ""),
    ]),
    perl(
        "goes around the proxy that it has",
        r#"connects 'loopback', AF_INET, pack_sockaddr_in($ENV{PORT}, inet_aton('127.0.0.1'));
        connects 'metadata', AF_INET, pack_sockaddr_in(80, inet_aton('169.254.169.254'));
        my $found = gethostbyname 'allowed.invalid'; tell_it 'host', defined $found, 'unknown';
        connects 'path', AF_UNIX, pack_sockaddr_un($ENV{SOCKET}); connects 'name', AF_UNIX, pack_sockaddr_un("\0$ENV{NAME}");"#,
    )
    .shape(with_network)
    .refused(&["loopback: ECONNREFUSED", "metadata: ENETUNREACH", "host: unknown", "path: ENOENT", "name: ECONNREFUSED|EPERM"]),
    sh("looks for sockets of other boxes", r#"same sockets '' "$(find / -type s -not -path '/proc/*' 2>/dev/null)""#)
        .shape(with_network)
        .refused(&["sockets: as"]),
    perl(
        "reaches the door of another box",
        r#"connects 'path', AF_UNIX, pack_sockaddr_un($ENV{SOCKET}); connects 'name', AF_UNIX, pack_sockaddr_un('/orc/doors/8081');
        connects 'port', AF_INET, pack_sockaddr_in(8081, inet_aton('127.0.0.1'));
        opendir(my $doors, '/orc/doors') or die; my @found = grep { !/^\./ } readdir $doors; tell_it 'doors', "@found" ne '8080', "@found";"#,
    )
    .shape(with_door)
    .refused(&["path: ENOENT", "name: ENOENT", "port: ECONNREFUSED", "doors: 8080"]),
    perl(
        "puts something else in the place of its door",
        r#"my $door = '/orc/doors/8080'; -S $door or die;
        tried 'remove', unlink $door; tried 'move', rename $door, '/tmp/door'; tried 'mode', chmod 0, $door; tried 'owner', chown $<, -1, $door;
        tried 'directory', rename '/orc/doors', '/orc/other'; tried 'link', symlink '/tmp/door', '/orc/doors/8081';
        for (['over', $door], ['beside', '/orc/doors/8081']) {
            socket(my $own, AF_UNIX, SOCK_STREAM, 0) or die; tried $$_[0], bind $own, pack_sockaddr_un($$_[1]) }
        for (['port', '127.0.0.1'], ['any', '0.0.0.0']) { socket(my $own, AF_INET, SOCK_STREAM, 0) or die;
            setsockopt $own, SOL_SOCKET, $_, 1 for SO_REUSEADDR, 15; tried $$_[0], bind($own, pack_sockaddr_in(8080, inet_aton($$_[1]))) && listen($own, 1) }"#,
    )
    .shape(with_door)
    .refused(&[
        "remove: EROFS|EBUSY|EACCES",
        "move: EROFS|EBUSY|EACCES|EXDEV",
        "mode: EROFS",
        "owner: EROFS",
        "directory: EROFS|EBUSY|EACCES",
        "link: EROFS|EACCES",
        "over: EADDRINUSE",
        "beside: EROFS|EACCES",
        "port: EADDRINUSE",
        "any: EADDRINUSE",
    ]),
];
