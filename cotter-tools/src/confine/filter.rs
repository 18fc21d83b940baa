//! System calls a confined command does not get: seccomp programs, made once in the spawner.
//!
//! A program is made by hand because every command pays for its length: the kernel translates it when
//! it is installed, and goes through it once for every call there is. A refused call takes two steps
//! here, where a general compiler makes five of it, and a call sees a few of them.

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

/// Whether there are programs for this machine.
pub(crate) fn check() -> Result<(), String> {
    match MACHINE {
        Some(_) => Ok(()),
        None => Err(format!("there is no seccomp program for {}", std::env::consts::ARCH)),
    }
}

/// Takes the calls away from this process and all it starts, for good. It has given up new privileges.
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
    // SAFETY: the program has the length that is given, and the kernel copies it.
    let done = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    };
    if done == 0 { Ok(()) } else { Err(format!("seccomp: {}", io::Error::last_os_error())) }
}

/// By which the kernel says whose numbers a call has.
const MACHINE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xC000_003E)
} else if cfg!(target_arch = "aarch64") {
    Some(0xC000_00B7)
} else if cfg!(target_arch = "riscv64") {
    Some(0xC000_00F3)
} else {
    None
};

/// On x86-64 the same calls have second numbers from here on.
const SECOND_NUMBERS: u32 = 0x4000_0000;

/// How many calls are looked for one after another.
const PART: usize = 6;

/// What is done with each call that is looked at, by its number.
type Rules = BTreeMap<u32, Vec<sock_filter>>;

fn program(calls: SyscallSet, families: &[i32]) -> Vec<sock_filter> {
    let ours = MACHINE.unwrap_or(0);
    let mut program = vec![load(WHOSE), unless_equal(ours, 1), go(1), KILL, load(NUMBER)];
    if cfg!(target_arch = "x86_64") {
        program.extend([unless_at_least(SECOND_NUMBERS, 1), MISSING]);
    }
    let mut rules = for_others();
    if calls == SyscallSet::Few {
        rules.extend(needless());
    }
    rules.extend(sockets(families));
    let rules: Vec<_> = rules.into_iter().collect();
    program.extend(choice(&rules));
    program
}

/// The part of the rules that a number is in. Every part ends with its own answer.
fn choice(rules: &[(u32, Vec<sock_filter>)]) -> Vec<sock_filter> {
    if rules.len() <= PART {
        let one = |(number, steps): &(u32, Vec<sock_filter>)| {
            let behind = u8::try_from(steps.len()).unwrap_or(u8::MAX);
            [vec![unless_equal(*number, behind)], steps.clone()].concat()
        };
        return rules.iter().flat_map(one).chain([ALLOW]).collect();
    }
    let (low, high) = rules.split_at(rules.len() / 2);
    let below = choice(low);
    let past = u32::try_from(below.len()).unwrap_or(u32::MAX);
    [vec![unless_at_least(high[0].0, 1), go(past)], below, choice(high)].concat()
}

/// What is refused to everybody: what acts for others, and what would make sockets unseen.
fn for_others() -> Rules {
    let unseen = [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];
    let mut rules: Rules = unseen.iter().map(|call| (number(*call), vec![REFUSE])).collect();
    // Typing into terminals.
    let types = [libc::TIOCSTI, libc::TIOCLINUX].map(|request| request as u32);
    rules.insert(number(libc::SYS_ioctl), refuse_if(1, &types));
    // The limits of another process: whoever sets them can end it.
    let limits = vec![load(argument(0)), unless_equal(0, 1), ALLOW, REFUSE];
    rules.insert(number(libc::SYS_prlimit64), limits);
    rules
}

/// What no build needs, whatever the network.
fn needless() -> Rules {
    let mut rules: Rules = ALWAYS.iter().map(|call| (number(*call), vec![REFUSE])).collect();
    let mut insert = |call, steps| rules.insert(number(call), steps);
    // As if the kernel had none: the C library then takes the older one, whose flags can be seen.
    insert(libc::SYS_clone3, vec![MISSING]);
    for call in [libc::SYS_clone, libc::SYS_unshare] {
        insert(call, vec![load(argument(0)), unless_any(NAMESPACES, 1), REFUSE, ALLOW]);
    }
    rules
}

/// Refuses every socket but of these families, and of the one that only tells about interfaces.
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
        // One of a pair of this kind could be sent on to any socket of the machine.
        // The kernel takes a raw one for the same.
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

/// Where in what the kernel shows a program there is what.
const NUMBER: u32 = 0;
const WHOSE: u32 = 4;

/// The lower half of an argument: flags and families have no upper one.
const fn argument(at: u32) -> u32 {
    let half = if cfg!(target_endian = "big") { 4 } else { 0 };
    16 + 8 * at + half
}

const fn step(code: u32, past: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: past, k }
}

const fn load(from: u32) -> sock_filter {
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, from)
}

const fn and(mask: u32) -> sock_filter {
    step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, mask)
}

/// Leaves out that many steps unless it holds.
const fn unless_equal(value: u32, past: u8) -> sock_filter {
    step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, past, value)
}

const fn unless_at_least(value: u32, past: u8) -> sock_filter {
    step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, past, value)
}

const fn unless_any(bits: u32, past: u8) -> sock_filter {
    step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, past, bits)
}

/// Leaves out that many steps.
const fn go(past: u32) -> sock_filter {
    step(libc::BPF_JMP | libc::BPF_JA, 0, past)
}

const fn answer(what: u32) -> sock_filter {
    step(libc::BPF_RET | libc::BPF_K, 0, what)
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

const ALWAYS: [i64; 40] = [
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
