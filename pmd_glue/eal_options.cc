#include "pmd_glue/eal_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace uroce::glue {

namespace {

enum class Value { none, required, optional };
struct LongOption {
  std::string_view name;
  Value value;
};

// rte_eal_init(), DPDK 22.11: "EAL parameters" of the Linux guide.
constexpr std::array<LongOption, 38> kLongOptions{{
    {"allow", Value::required},
    {"base-virtaddr", Value::required},
    {"block", Value::required},
    {"create-uio-dev", Value::none},
    {"file-prefix", Value::required},
    {"force-max-simd-bitwidth", Value::required},
    {"help", Value::none},
    {"huge-dir", Value::required},
    {"huge-unlink", Value::optional},
    {"huge-worker-stack", Value::optional},
    {"in-memory", Value::none},
    {"iova-mode", Value::required},
    {"lcores", Value::required},
    {"legacy-mem", Value::none},
    {"log-level", Value::required},
    {"main-lcore", Value::required},
    {"match-allocations", Value::none},
    {"mbuf-pool-ops-name", Value::required},
    {"no-hpet", Value::none},
    {"no-huge", Value::none},
    {"no-pci", Value::none},
    {"no-shconf", Value::none},
    {"no-telemetry", Value::none},
    {"proc-type", Value::required},
    {"single-file-segments", Value::none},
    {"socket-limit", Value::required},
    {"socket-mem", Value::required},
    {"syslog", Value::required},
    {"telemetry", Value::none},
    {"trace", Value::required},
    {"trace-bufsz", Value::required},
    {"trace-dir", Value::required},
    {"trace-mode", Value::required},
    {"vdev", Value::required},
    {"version", Value::none},
    {"vfio-intr", Value::required},
    {"vfio-vf-token", Value::required},
    {"vmware-tsc-map", Value::none},
}};
constexpr std::string_view kShortWithValue = "abcsdlSmnr";
constexpr std::string_view kShortAlone = "hv";

Result<std::string_view> match_long(std::string_view text) {
  std::string_view found;
  for (const LongOption& option : kLongOptions) {
    if (option.name == text) return option.name;
    if (!option.name.starts_with(text)) continue;
    if (!found.empty()) return fail(EINVAL, fmt::format("EAL option '--{}' is ambiguous; write it in full", text));
    found = option.name;
  }
  if (found.empty()) {
    return fail(
        EINVAL,
        fmt::format("unknown EAL option '--{}'; EAL options stand before '--', the program's own after it", text));
  }
  return found;
}

Value value_of(std::string_view name) { return std::ranges::find(kLongOptions, name, &LongOption::name)->value; }

}  // namespace

Result<std::vector<EalOption>> read_eal_options(const std::vector<std::string>& args) {
  std::vector<EalOption> out;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    EalOption option;
    option.index = i;
    Value value = Value::none;
    if (arg.starts_with("--") && arg.size() > 2) {
      const auto equals = arg.find('=');
      auto name = match_long(std::string_view(arg).substr(2, equals == std::string::npos ? equals : equals - 2));
      if (!name) return std::unexpected(name.error());
      option.name = *name;
      value = value_of(*name);
      if (equals != std::string::npos) {
        if (value == Value::none) return fail(EINVAL, fmt::format("EAL option '--{}' takes no value", option.name));
        option.value = arg.substr(equals + 1);
        option.value_index = i;
        option.value_offset = equals + 1;
        value = Value::none;
      }
    } else if (arg.size() >= 2 && arg[0] == '-' && kShortWithValue.find(arg[1]) != std::string_view::npos) {
      option.name = arg.substr(1, 1);
      value = Value::required;
      if (arg.size() > 2) {
        option.value = arg.substr(2);
        option.value_index = i;
        option.value_offset = 2;
        value = Value::none;
      }
    } else if (arg.size() == 2 && arg[0] == '-' && kShortAlone.find(arg[1]) != std::string_view::npos) {
      option.name = arg.substr(1);
    } else {
      return fail(
          EINVAL,
          fmt::format("'{}' is not an EAL option; EAL options stand before '--', the program's own after it", arg));
    }
    if (value == Value::required) {
      if (i + 1 >= args.size()) return fail(EINVAL, fmt::format("EAL option '{}' needs a value", arg));
      option.value = args[++i];
      option.value_index = i;
    }
    out.push_back(std::move(option));
  }
  return out;
}

bool has_option(const std::vector<EalOption>& options, std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(options,
                             [&](const EalOption& o) { return std::ranges::find(names, o.name) != names.end(); });
}

}  // namespace uroce::glue
