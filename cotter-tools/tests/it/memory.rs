//! `memory`: what is remembered, found again and forgotten; files as people and other processes leave
//! them. R11, SECURITY 16, 21, 22, 28.

use std::{fs, path::Path, sync::Arc};

use cotter::{
    Agent, AgentConfig, FnTool, Mention, Permit, ToolSpec,
    permission::{Mode, Zone},
    tool::Facts,
};
use cotter_test::{Scripted, Step, transcript};
use cotter_tools::memory::{Memory, project_key};
use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;
