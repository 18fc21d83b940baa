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
    common: Vec<BpfProgram>,
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
    let sockets = match network {
        Network::Off => &programs.off,
        Network::On => &programs.on,
        Network::WithLocal => &programs.with_local,
    };
    programs.common.iter().chain([sockets]).try_for_each(|program| {
        seccompiler::apply_filter(program).map_err(|cause| format!("seccomp: {cause}"))
    })
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

impl Programs {
    fn build() -> Result<Self, String> {
        let built = || -> Result<Programs, seccompiler::BackendError> {
            let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
            // As if the kernel had none: the C library then takes the older one, whose flags can be seen.
            let missing = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
            let unseen = [(libc::SYS_clone3, vec![])].into();
            let mut common =
                vec![program(needless()?, refused.clone())?, program(unseen, missing)?];
            if cfg!(target_arch = "x86_64") {
                common.push(no_second_numbers());
            }
            Ok(Programs {
                off: program(sockets(&[])?, refused.clone())?,
                on: program(sockets(&[libc::AF_INET, libc::AF_INET6])?, refused.clone())?,
                with_local: program(
                    sockets(&[libc::AF_INET, libc::AF_INET6, libc::AF_UNIX])?,
                    refused,
                )?,
                common,
            })
        };
        built().map_err(|cause| format!("seccomp: {cause}"))
    }
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

/// The same calls have second numbers on this machine, which the other programs do not look at.
fn no_second_numbers() -> BpfProgram {
    let (load, at_least, answer) = (0x20, 0x35, 0x06);
    let step = |code, jt, k| sock_filter { code, jt, jf: 0, k };
    vec![
        step(load, 0, 0),
        step(at_least, 1, 0x4000_0000),
        step(answer, 0, libc::SECCOMP_RET_ALLOW),
        step(answer, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned()),
    ]
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
