//! System calls a confined command does not get: seccomp programs, made once in the spawner.

use std::{collections::BTreeMap, sync::LazyLock};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

use super::Network;

static PROGRAMS: LazyLock<Result<Programs, String>> = LazyLock::new(Programs::build);

struct Programs {
    off: BpfProgram,
    on: BpfProgram,
    with_local: BpfProgram,
}

/// Builds the programs, so that no call has to.
pub(crate) fn prepare() {
    LazyLock::force(&PROGRAMS);
}

/// Whether there are programs for this machine.
pub(super) fn check() -> Result<(), String> {
    PROGRAMS.as_ref().map(drop).map_err(Clone::clone)
}

/// Takes the calls away from this process and all it starts, for good.
pub(super) fn apply(network: Network) -> Result<(), String> {
    let programs = PROGRAMS.as_ref().map_err(Clone::clone)?;
    let program = match network {
        Network::Off => &programs.off,
        Network::On => &programs.on,
        Network::WithLocal => &programs.with_local,
    };
    seccompiler::apply_filter(program).map_err(|cause| format!("seccomp: {cause}"))
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

impl Programs {
    fn build() -> Result<Self, String> {
        let built = || -> Result<Programs, seccompiler::BackendError> {
            Ok(Programs {
                off: whole(&[])?,
                on: whole(&[libc::AF_INET, libc::AF_INET6])?,
                with_local: whole(&[libc::AF_INET, libc::AF_INET6, libc::AF_UNIX])?,
            })
        };
        built().map_err(|cause| format!("seccomp: {cause}"))
    }
}

/// How many calls one part of a program looks for.
const PART: usize = 8;
/// On x86-64 the same calls have second numbers from here on, which are nobody's business.
const SECOND_NUMBERS: u32 = 0x4000_0000;

/// One program for all of it. The kernel goes through it for every call there is when it is installed,
/// and translates it; several programs, or one long chain of comparisons, would cost every command more
/// than everything else that confines it. So it is made of parts by number, of which a call sees one.
fn whole(families: &[i32]) -> Result<BpfProgram, seccompiler::BackendError> {
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    // As if the kernel had none: the C library then takes the older one, whose flags can be seen.
    let missing = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    let mut rules = needless()?;
    rules.extend(sockets(families)?);
    let behind = rules.split_off(&(libc::SYS_clone3 + 1));
    let mut parts = in_parts(rules, &refused)?;
    let clone3 = [(libc::SYS_clone3, vec![])].into();
    parts.push((number(libc::SYS_clone3), program(clone3, missing)?));
    parts.push((number(libc::SYS_clone3) + 1, program(behind, refused)?));
    if cfg!(target_arch = "x86_64") {
        let nothing = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
        parts.push((SECOND_NUMBERS, vec![step(ANSWER, 0, nothing)]));
    }
    Ok(joined(&parts))
}

/// The rules in several programs, each with the number from which on it is the one.
fn in_parts(
    mut rules: Rules,
    refused: &SeccompAction,
) -> Result<Vec<(u32, BpfProgram)>, seccompiler::BackendError> {
    let mut parts = vec![];
    let mut from = 0;
    while !rules.is_empty() {
        let next = rules.keys().nth(PART).copied();
        let rest = next.map(|next| rules.split_off(&next)).unwrap_or_default();
        parts.push((from, program(rules, refused.clone())?));
        from = next.map_or(from, number);
        rules = rest;
    }
    Ok(parts)
}

/// The part that a call's number belongs to decides, and ends with an answer.
fn joined(parts: &[(u32, BpfProgram)]) -> BpfProgram {
    let mut all = vec![step(LOAD, 0, 0)];
    // Chosen by two steps each, from the last to the first.
    for (at, (from, _)) in parts.iter().enumerate().rev() {
        let before: usize = parts[..at].iter().map(|(_, program)| program.len()).sum();
        all.push(step(AT_LEAST, 1, *from));
        all.push(step(GO, 0, u32::try_from(2 * at + before).unwrap_or(u32::MAX)));
    }
    all.extend(parts.iter().flat_map(|(_, program)| program.iter().cloned()));
    all
}

const LOAD: u16 = 0x20;
const AT_LEAST: u16 = 0x35;
const GO: u16 = 0x05;
const ANSWER: u16 = 0x06;

/// `past` are the steps left out where a comparison does not hold.
fn step(code: u16, past: u8, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: past, k }
}

fn number(call: i64) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

fn program(rules: Rules, action: SeccompAction) -> Result<BpfProgram, seccompiler::BackendError> {
    let machine = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, SeccompAction::Allow, action, machine)?.try_into()
}

fn when(
    argument: u8,
    is: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, Dword, is, value)
}

/// What is refused whatever the network.
fn needless() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = ALWAYS.iter().map(|call| (*call, vec![])).collect();
    let into_terminals = [libc::TIOCSTI, libc::TIOCLINUX];
    let rule = |request: u64| SeccompRule::new(vec![when(1, SeccompCmpOp::Eq, request)?]);
    let typing = into_terminals.map(|request| rule(u64::from(request as u32)));
    rules.insert(libc::SYS_ioctl, typing.into_iter().collect::<Result<_, _>>()?);
    // The limits of another process: whoever sets them can end it.
    let of_others = SeccompRule::new(vec![when(0, SeccompCmpOp::Ne, 0)?])?;
    rules.insert(libc::SYS_prlimit64, vec![of_others]);
    for call in [libc::SYS_clone, libc::SYS_unshare] {
        let made = NAMESPACES.map(|flag| {
            let flag = flag.cast_unsigned().into();
            SeccompRule::new(vec![when(0, SeccompCmpOp::MaskedEq(flag), flag)?])
        });
        rules.insert(call, made.into_iter().collect::<Result<_, _>>()?);
    }
    Ok(rules)
}

/// Refuses every socket but of these families, and of the one that only tells about interfaces.
fn sockets(families: &[i32]) -> Result<Rules, seccompiler::BackendError> {
    let value = |family: i32| u64::from(family.cast_unsigned());
    let netlink = value(libc::AF_NETLINK);
    let open = families.iter().map(|family| value(*family)).chain([netlink]);
    let none_of = open.map(|family| when(0, SeccompCmpOp::Ne, family)).collect::<Result<_, _>>()?;
    let not_about_routes = vec![
        when(0, SeccompCmpOp::Eq, netlink)?,
        when(2, SeccompCmpOp::Ne, value(libc::NETLINK_ROUTE))?,
    ];
    let refused = vec![SeccompRule::new(none_of)?, SeccompRule::new(not_about_routes)?];
    let mut rules: Rules = [(libc::SYS_socket, refused)].into();
    if !families.contains(&libc::AF_UNIX) {
        // One of a pair of this kind could be sent on to any socket of the machine.
        // The kernel takes a raw one for the same.
        let datagrams = [libc::SOCK_DGRAM, libc::SOCK_RAW]
            .map(|kind| SeccompRule::new(vec![when(1, SeccompCmpOp::MaskedEq(0xf), value(kind))?]));
        let refused = datagrams.into_iter().collect::<Result<_, _>>()?;
        rules.insert(libc::SYS_socketpair, refused);
    }
    Ok(rules)
}

const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

const ALWAYS: [i64; 43] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
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
