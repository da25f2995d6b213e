mod protocols;
mod scripted;
