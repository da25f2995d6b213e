//! Descriptors through a socket (unix(7), `SCM_RIGHTS`).

use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

/// Writes all bytes, with a descriptor at the first.
pub(crate) fn send(socket: impl AsFd, bytes: &[u8], fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut rest = bytes;
    let fds: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
    let mut fds = fds.as_slice();
    while !rest.is_empty() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::Error::other("no room for a descriptor"));
        }
        let count = rustix::io::retry_on_intr(|| {
            sendmsg(socket.as_fd(), &[IoSlice::new(rest)], &mut control, SendFlags::NOSIGNAL)
        })?;
        rest = &rest[count..];
        fds = &[];
    }
    Ok(())
}

/// Reads what there is; keeps the descriptor that came with it. Further ones are closed.
pub(crate) fn receive(socket: impl AsFd, bytes: &mut [u8], fd: &mut Option<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(socket.as_fd(), &mut [IoSliceMut::new(bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            for received in fds {
                fd.get_or_insert(received);
            }
        }
    }
    Ok(received.bytes)
}

/// Hands over the three standard streams of a process.
pub(crate) fn send_streams(socket: impl AsFd, streams: [BorrowedFd<'_>; 3]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&streams)) {
        return Err(io::Error::other("no room for three descriptors"));
    }
    let sent =
        rustix::io::retry_on_intr(|| sendmsg(socket.as_fd(), &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL));
    Ok(sent.map(drop)?)
}

/// Takes them; `None` when nobody hands any over any more.
pub(crate) fn receive_streams(socket: impl AsFd) -> io::Result<Option<[OwnedFd; 3]>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(socket.as_fd(), &mut [IoSliceMut::new(&mut [0])], &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut streams = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            streams.extend(fds);
        }
    }
    streams.try_into().map(Some).map_err(|_| io::Error::other("not three descriptors"))
}

/// A reader that keeps the first descriptor that comes.
pub(crate) struct Receiving<'a, S> {
    pub(crate) socket: &'a S,
    pub(crate) fd: &'a mut Option<OwnedFd>,
}

impl<S: AsFd> Read for Receiving<'_, S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        receive(self.socket, bytes, self.fd)
    }
}
