# shellcheck shell=sh
# Usage: . config/env.sh, in bash, dash or zsh; in dash from the top of the clone.
# Puts the programs on the PATH: uroced, uroce, uroce-run, uroce_nvmf, uroce_perf, and the names of its tests, such as
# uroce_write_bw. A program that is not built yet is built when it is first run.

# dash does not say which file it reads.
# shellcheck disable=SC3028
uroce_root=$(cd "$(dirname -- "${BASH_SOURCE:-$0}")/.." 2>/dev/null && pwd)
[ -f "$uroce_root/config/program.sh" ] || uroce_root=$PWD
if [ -f "$uroce_root/config/program.sh" ]; then
  uroce_path=$uroce_root/build/path
  mkdir -p "$uroce_path"
  for uroce_program in uroced uroce uroce-run uroce_nvmf uroce_perf \
    uroce_write_bw uroce_read_bw uroce_send_bw uroce_atomic_bw uroce_flush_bw \
    uroce_write_lat uroce_read_lat uroce_send_lat uroce_atomic_lat uroce_flush_lat; do
    [ -e "$uroce_path/$uroce_program" ] || ln -sf ../../config/program.sh "$uroce_path/$uroce_program"
  done
  case :$PATH: in
    *:"$uroce_path":*) ;;
    *) export PATH="$uroce_path:$PATH" ;;
  esac
  unset uroce_root uroce_path uroce_program
else
  echo "env.sh: $PWD is not the top of a clone; go there, and repeat: . config/env.sh" >&2
  unset uroce_root
  false
fi
