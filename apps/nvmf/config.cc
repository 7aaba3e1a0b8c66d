#include "nvmf/config.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <cerrno>
#include <set>

#include "arguments/program.h"
#include "pmd_glue/eal_args.h"

namespace uroce::nvmf {

namespace {

constexpr std::string_view kMemory = "memory:";

std::unexpected<Error> refuse(const std::string& path, const toml::node& at, const std::string& why) {
  return fail(EINVAL, fmt::format("{}:{}: {}", path, at.source().begin.line, why));
}

Result<std::vector<std::string>> strings(const std::string& path, const toml::node& node, std::string_view key) {
  std::vector<std::string> out;
  const toml::array* const list = node.as_array();
  if (list == nullptr) return refuse(path, node, fmt::format("{} is no list; write {} = [\"...\"]", key, key));
  for (const toml::node& one : *list) {
    const auto text = one.value<std::string>();
    if (!text) return refuse(path, one, fmt::format("an entry of {} is no text; write it in quotes", key));
    out.push_back(*text);
  }
  return out;
}
Result<std::vector<std::string>> strings(const std::string& path, const toml::table& table, std::string_view key) {
  const toml::node* const node = table.get(key);
  return node == nullptr ? std::vector<std::string>() : strings(path, *node, key);
}

/// One name, or a list of them.
Result<std::vector<std::string>> read_interfaces(const std::string& path, const toml::node& node) {
  auto names = node.is_array() ? strings(path, node, "interface") : std::vector{node.value_or(std::string())};
  if (!names) return names;
  if (names->empty() || std::ranges::find(*names, std::string()) != names->end()) {
    return refuse(path, node, "interface names nothing; write interface = \"eth0\", or [\"eth0\", \"eth1\"]");
  }
  return names;
}

Result<std::vector<std::string>> read_listen(const std::string& path, const toml::node& node) {
  auto addresses = strings(path, node, "listen");
  // An empty list says that the target listens nowhere, and not that it does everywhere.
  if (addresses && addresses->empty()) {
    return refuse(path, node, "listen is empty; name an address, or leave it out for every address");
  }
  return addresses;
}

Result<std::string> read_lcores(const std::string& path, const toml::node& node) {
  const auto text = node.value_exact<std::string>();
  if (!text) return refuse(path, node, "lcores is no text; write lcores = \"1-2\"");
  const auto fault = glue::fault_of_lcores(*text);
  if (!fault.empty()) return refuse(path, node, fmt::format("lcores = '{}': {}", *text, fault));
  return *text;
}

Result<SubsystemSettings> read_subsystem(const std::string& path, const toml::table& table) {
  SubsystemSettings made;
  for (const auto& [key, node] : table) {
    if (key != "nqn" && key != "namespaces" && key != "hosts") {
      return refuse(path, node, fmt::format("unknown key {}; [[subsystem]] has nqn, namespaces, hosts", key.str()));
    }
  }
  made.nqn = table["nqn"].value_or(std::string());
  if (auto fault = fault_of_nqn(made.nqn); !fault.empty()) return refuse(path, table, fault);
  auto namespaces = strings(path, table, "namespaces");
  if (!namespaces) return std::unexpected(namespaces.error());
  for (const std::string& text : *namespaces) {
    auto one = parse_namespace(text);
    if (!one) return refuse(path, table, one.error().text);
    made.namespaces.push_back(std::move(*one));
  }
  auto hosts = strings(path, table, "hosts");
  if (!hosts) return std::unexpected(hosts.error());
  // An empty list says that there is no host, and not that every host may connect.
  if (table.contains("hosts") && hosts->empty()) {
    return refuse(path, table, "hosts is empty; name a host, or leave it out for every host");
  }
  made.hosts = std::move(*hosts);
  return made;
}

}  // namespace

Result<NamespaceSettings> parse_namespace(const std::string& text) {
  if (!text.starts_with(kMemory)) return NamespaceSettings{.path = text};
  NamespaceSettings made;
  made.memory_bytes = arguments::size_of(text.substr(kMemory.size())).value_or(0);
  if (made.memory_bytes < 512) {
    return fail(EINVAL,
                fmt::format("the namespace {} has no size of at least 512 bytes; write one like memory:1G", text));
  }
  return made;
}

Result<Config> read_config(const std::string& path) {
  Config out;
  toml::table file;
  try {
    file = toml::parse_file(path);
  } catch (const toml::parse_error& e) {
    return fail(EINVAL, fmt::format("{}:{}: {}", path, e.source().begin.line, e.description()));
  }
  std::set<std::string> names;
  for (const auto& [key, node] : file) {
    if (key == "interface") {
      auto interfaces = read_interfaces(path, node);
      if (!interfaces) return std::unexpected(interfaces.error());
      out.interfaces = std::move(*interfaces);
      continue;
    }
    if (key == "listen") {
      auto addresses = read_listen(path, node);
      if (!addresses) return std::unexpected(addresses.error());
      out.listen = std::move(*addresses);
      continue;
    }
    if (key == "lcores") {
      auto lcores = read_lcores(path, node);
      if (!lcores) return std::unexpected(lcores.error());
      out.lcores = std::move(*lcores);
      continue;
    }
    const toml::array* const list = node.as_array();
    if (key != "subsystem" || list == nullptr || !list->is_array_of_tables()) {
      return refuse(
          path, node,
          fmt::format("unknown key {}; the file has interface, lcores, listen and tables [[subsystem]]", key.str()));
    }
    for (const toml::node& one : *list) {
      auto made = read_subsystem(path, *one.as_table());
      if (!made) return std::unexpected(made.error());
      if (!names.insert(made->nqn).second) return refuse(path, one, fmt::format("a second subsystem {}", made->nqn));
      out.subsystems.push_back(std::move(*made));
    }
  }
  return out;
}

}  // namespace uroce::nvmf
