//! The shell: dispatcher, effect runners, reconcilers, control socket.
