#!/usr/bin/env bash
# Installs, uses and removes the deb beside it, in the copy of a system that
# package.sh makes. INSTALL is the command by which README.md installs it,
# VERSION what it is, PYTHON an interpreter with torch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

die() { printf 'package-inside.sh: %s\n' "$*" >&2; exit 1; }
did() { printf '    %s\n' "$*"; }
placed() { find /usr /etc /opt /var -xdev \( -path /var/cache -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/log \) -prune -o -print | sort; }

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive
! command -v cdui >/dev/null || die "cdui is in $(command -v cdui) of this system already"
useradd --create-home --shell /bin/bash ada
placed >/tmp/before

# apt asks nothing here, and brings nothing else along.
printf 'APT::Get::Assume-Yes "true";\nAPT::Install-Recommends "false";\nAPT::Sandbox::User "root";\n' >/tmp/apt.conf
[ -n "$INSTALL" ] || die "README.md has no line that installs the package"
mkdir /tmp/bin && printf '#!/bin/sh\nexec "$@"\n' >/tmp/bin/sudo && chmod +x /tmp/bin/sudo
APT_CONFIG=/tmp/apt.conf PATH=/tmp/bin:$PATH bash -c "$INSTALL" >/tmp/apt.log 2>&1 || { cat /tmp/apt.log >&2; die "failed: $INSTALL"; }
did "installed: ${INSTALL%% #*}"

[ "$(cdui --version)" = "cdui $VERSION" ] || die "cdui --version says $(cdui --version), not $VERSION"
did "$(cdui --version)"

for page in cdui cdui-run cdui-agent-ssh; do
    man -w "$page" >/dev/null
    man "$page" | grep -q . || die "the man page $page is empty"
done
did "man pages: $(dpkg -L cdui | grep -c /man1/.)"

bash -c '. /usr/share/bash-completion/completions/cdui; complete -p cdui' | grep -q __start_cdui || die "no completion in bash"
shells=bash
if command -v zsh >/dev/null; then
    # shellcheck disable=SC2016
    zsh -fc 'fpath=(/usr/share/zsh/vendor-completions $fpath); autoload -Uz compinit; compinit -u -d /tmp/zcompdump; [[ $_comps[cdui] = _cdui ]] && autoload +X _cdui' || die "no completion in zsh"
    shells+=", zsh"
fi
if command -v fish >/dev/null; then
    HOME=/tmp fish -c 'complete -C "cdui work"' | grep -q '^workers' || die "no completion in fish"
    shells+=", fish"
fi
did "completion in $shells"

systemd-sysusers
[ "$(getent passwd cdui | cut -d: -f6)" = /var/lib/cdui ] || die "systemd-sysusers makes no account"
for kind in system user; do
    for unit in /usr/lib/systemd/"$kind"/cdui*.service; do
        said=$(XDG_RUNTIME_DIR=/tmp systemd-analyze "--$kind" verify "$unit" 2>&1) || die "$unit: $said"
        [[ $said != *"/cdui"* ]] || die "$unit: $said"
    done
done
did "units are what systemd takes, and the account is made"

cat >/tmp/as-ada.sh <<'END'
set -e
cd ~ && cp /tmp/new/train.py /tmp/new/digits.csv.gz .
cdui start
cdui run train.py -- --epochs 2 </dev/null
cdui ls | grep succeeded
cdui stop
cdui demo --python "$CDUI_PYTHON" </dev/null | tail -3
END
unshare --net sh -c 'ip link set lo up; exec setpriv --reuid ada --regid ada --init-groups env -i HOME=/home/ada PATH=/usr/bin:/bin CDUI_PYTHON="$PYTHON" bash /tmp/as-ada.sh' >/tmp/ada.log 2>&1 || { cat /tmp/ada.log >&2; die "it can't be used"; }
grep -q succeeded /tmp/ada.log || { cat /tmp/ada.log >&2; die "no run succeeded"; }
did "an account started it, trained with it, saw the demo and stopped it"

dpkg -L cdui >/tmp/listed
dpkg -r cdui >/dev/null
placed >/tmp/after
diff /tmp/before /tmp/after || die "dpkg -r left these"
! dpkg -s cdui >/dev/null 2>&1 || die "dpkg still knows the package"
did "dpkg -r left nothing of $(wc -l </tmp/listed) files and folders"
