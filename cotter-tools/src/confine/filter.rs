//! The system calls that a confined command does not get, as seccomp programs, built once in the
//! spawner.
//!
//! The programs are written by hand because every command pays for their length: the kernel
//! compiles a program when it is installed and runs it for every system call. A refused call takes
//! two instructions here; a general compiler makes five. Each call passes only a few of them.

use std::{collections::BTreeMap, io, sync::LazyLock};

use libc::sock_filter;

use crate::confine::{Network, SyscallSet};

static PROGRAMS: LazyLock<Programs> = LazyLock::new(|| Programs {
    few: ByNetwork::new(SyscallSet::Few),
    most: ByNetwork::new(SyscallSet::Most),
});

struct Programs {
    few: ByNetwork,
    most: ByNetwork,
}

struct ByNetwork {
    off: Vec<sock_filter>,
    on: Vec<sock_filter>,
    with_local: Vec<sock_filter>,
}

impl ByNetwork {
    fn new(calls: SyscallSet) -> Self {
        ByNetwork {
            off: program(calls, &[]),
            on: program(calls, &[libc::AF_INET, libc::AF_INET6]),
            with_local: program(calls, &[libc::AF_INET, libc::AF_INET6, libc::AF_UNIX]),
        }
    }
}

/// Builds the programs, so that no call has to.
pub(crate) fn prepare() {
    LazyLock::force(&PROGRAMS);
}

/// Checks that there are programs for this architecture.
pub(crate) fn check() -> Result<(), String> {
    match AUDIT_ARCH {
        Some(_) => Ok(()),
        None => Err(format!("there is no seccomp program for {}", std::env::consts::ARCH)),
    }
}

/// Removes the system calls from this process and all it starts, for good. `no_new_privs` must be
/// set.
#[expect(unsafe_code, reason = "rustix has no seccomp")]
pub(crate) fn apply(calls: SyscallSet, network: Network) -> Result<(), String> {
    check()?;
    let programs = match calls {
        SyscallSet::Few => &PROGRAMS.few,
        SyscallSet::Most => &PROGRAMS.most,
    };
    let steps = match network {
        Network::Off => &programs.off,
        Network::On => &programs.on,
        Network::WithLocal => &programs.with_local,
    };
    let length = u16::try_from(steps.len()).map_err(|_| "seccomp: too long a program")?;
    let program = libc::sock_fprog { len: length, filter: steps.as_ptr().cast_mut() };
    // SAFETY: the program has the given length, and the kernel copies it.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    };
    if result == 0 { Ok(()) } else { Err(format!("seccomp: {}", io::Error::last_os_error())) }
}

/// The architecture number that the kernel reports with a call.
const AUDIT_ARCH: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xC000_003E)
} else if cfg!(target_arch = "aarch64") {
    Some(0xC000_00B7)
} else if cfg!(target_arch = "riscv64") {
    Some(0xC000_00F3)
} else {
    None
};

/// On x86-64, the same calls have a second set of numbers from here on (x32).
const X32_BIT: u32 = 0x4000_0000;

/// The most calls that are compared one after another.
const MAX_LINEAR: usize = 6;

/// The instructions for each checked call, by its number.
type Rules = BTreeMap<u32, Vec<sock_filter>>;

fn program(calls: SyscallSet, families: &[i32]) -> Vec<sock_filter> {
    let own_arch = AUDIT_ARCH.unwrap_or(0);
    let mut program = vec![load(ARCH), unless_equal(own_arch, 1), skip(1), KILL, load(NUMBER)];
    if cfg!(target_arch = "x86_64") {
        program.extend([unless_at_least(X32_BIT, 1), MISSING]);
    }
    let mut rules = refused_always();
    if calls == SyscallSet::Few {
        rules.extend(refused_for_builds());
    }
    rules.extend(sockets(families));
    let rules: Vec<_> = rules.into_iter().collect();
    program.extend(binary_search(&rules));
    program
}

/// A binary search for the rule of a number. Every part ends with its own answer.
fn binary_search(rules: &[(u32, Vec<sock_filter>)]) -> Vec<sock_filter> {
    if rules.len() <= MAX_LINEAR {
        let rule_steps = |(number, steps): &(u32, Vec<sock_filter>)| {
            let skip_count = u8::try_from(steps.len()).unwrap_or(u8::MAX);
            [vec![unless_equal(*number, skip_count)], steps.clone()].concat()
        };
        return rules.iter().flat_map(rule_steps).chain([ALLOW]).collect();
    }
    let (low, high) = rules.split_at(rules.len() / 2);
    let below = binary_search(low);
    let skip_count = u32::try_from(below.len()).unwrap_or(u32::MAX);
    [vec![unless_at_least(high[0].0, 1), skip(skip_count)], below, binary_search(high)].concat()
}

/// Calls refused to every command: those that act on other processes, and io_uring, which hides
/// sockets from the filter.
fn refused_always() -> Rules {
    let io_uring =
        [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];
    let mut rules: Rules = io_uring.iter().map(|call| (number(*call), vec![REFUSE])).collect();
    // Requests that type into terminals.
    let requests = [libc::TIOCSTI, libc::TIOCLINUX].map(|request| request as u32);
    rules.insert(number(libc::SYS_ioctl), refuse_if(1, &requests));
    // Setting the limits of another process could end it.
    let limits = vec![load(argument(0)), unless_equal(0, 1), ALLOW, REFUSE];
    rules.insert(number(libc::SYS_prlimit64), limits);
    rules
}

/// Calls that no build needs, for any network access.
fn refused_for_builds() -> Rules {
    let mut rules: Rules =
        REFUSED_FOR_BUILDS.iter().map(|call| (number(*call), vec![REFUSE])).collect();
    let mut insert = |call, steps| rules.insert(number(call), steps);
    // Answer as if the kernel had none: the C library then uses the older call, whose flags can be
    // checked.
    insert(libc::SYS_clone3, vec![MISSING]);
    for call in [libc::SYS_clone, libc::SYS_unshare] {
        insert(call, vec![load(argument(0)), unless_any(NAMESPACES, 1), REFUSE, ALLOW]);
    }
    rules
}

/// Refuses every socket except of these families and the netlink family that reports interfaces.
fn sockets(families: &[i32]) -> Rules {
    let mut steps = vec![load(argument(0))];
    for family in families {
        steps.extend([unless_equal(family.cast_unsigned(), 1), ALLOW]);
    }
    let routes = libc::NETLINK_ROUTE.cast_unsigned();
    steps.extend([unless_equal(libc::AF_NETLINK.cast_unsigned(), 3), load(argument(2))]);
    steps.extend([unless_equal(routes, 1), ALLOW, REFUSE]);
    let mut rules = Rules::from([(number(libc::SYS_socket), steps)]);
    if !families.contains(&libc::AF_UNIX) {
        // A datagram socket of a pair could send to any socket of the machine. The kernel treats a
        // raw one alike.
        let kinds = [libc::SOCK_DGRAM, libc::SOCK_RAW].map(i32::cast_unsigned);
        let mut steps = refuse_if(1, &kinds);
        steps.insert(1, and(0xf));
        rules.insert(number(libc::SYS_socketpair), steps);
    }
    rules
}

fn refuse_if(at: u32, values: &[u32]) -> Vec<sock_filter> {
    let each = values.iter().flat_map(|value| [unless_equal(*value, 1), REFUSE]);
    [load(argument(at))].into_iter().chain(each).chain([ALLOW]).collect()
}

const ALLOW: sock_filter = answer(libc::SECCOMP_RET_ALLOW);
const REFUSE: sock_filter = answer(libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned());
const MISSING: sock_filter = answer(libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned());
const KILL: sock_filter = answer(libc::SECCOMP_RET_KILL_PROCESS);

/// Offsets in the data that the kernel passes to a program.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;

/// The lower half of an argument: flags and families have no upper half.
const fn argument(at: u32) -> u32 {
    let half = if cfg!(target_endian = "big") { 4 } else { 0 };
    16 + 8 * at + half
}

const fn step(code: u32, skip_count: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: skip_count, k }
}

const fn load(from: u32) -> sock_filter {
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, from)
}

const fn and(mask: u32) -> sock_filter {
    step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, mask)
}

/// Skips that many instructions unless the condition holds.
const fn unless_equal(value: u32, skip_count: u8) -> sock_filter {
    step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, skip_count, value)
}

const fn unless_at_least(value: u32, skip_count: u8) -> sock_filter {
    step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, skip_count, value)
}

const fn unless_any(bits: u32, skip_count: u8) -> sock_filter {
    step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, skip_count, bits)
}

/// Skips that many instructions.
const fn skip(skip_count: u32) -> sock_filter {
    step(libc::BPF_JMP | libc::BPF_JA, 0, skip_count)
}

const fn answer(action: u32) -> sock_filter {
    step(libc::BPF_RET | libc::BPF_K, 0, action)
}

fn number(call: i64) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

const NAMESPACES: u32 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP)
    .cast_unsigned();

const REFUSED_FOR_BUILDS: [i64; 40] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_open_by_handle_at,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_vhangup,
];
