//! Anthropic's Messages.
