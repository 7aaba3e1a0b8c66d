#include "service/succession.h"

#include <bit>
#include <cerrno>

#include <fmt/format.h>

#include "net/address.h"

namespace uroce::service {
namespace {

constexpr const char* kAdvice =
    "; start the successor with the same, or restart the ordinary way: stop uroced, and start it";

template <class T>
Result<void> same(const std::string& device, std::string_view what, const T& running, const T& successors) {
  if (running == successors) return {};
  return fail(EINVAL, fmt::format("{}: {} is {} in the running daemon and {} in its successor", device, what, running,
                                  successors));
}

Result<void> check_same(const message::DeviceFacts& running, const message::DeviceFacts& successors) {
  const std::string& device = running.name;
  for (const auto& checked :
       {same(device, "the interface", running.interface, successors.interface),
        same(device, "the number of engines", running.engines, successors.engines),
        same(device, "the Ethernet address", net::to_text(running.mac), net::to_text(successors.mac)),
        same(device, "the MTU", running.mtu, successors.mtu), same(device, "the VLAN", running.vlan, successors.vlan),
        same(device, "engines.max_qp, rounded up to a power of two,", running.max_qp, successors.max_qp),
        same(device, "engines.max_mr, rounded up to a power of two,", running.max_mr, successors.max_mr)}) {
    if (!checked) return checked;
  }
  return {};
}

}  // namespace

std::string process_text(int32_t pid) {
  return pid > 0 ? fmt::format("process {}", pid) : "a process of another container";
}

Result<void> check_same(const std::vector<message::DeviceFacts>& running,
                        const std::vector<message::DeviceFacts>& successors) {
  if (auto ok = same("uroced", "the number of devices", running.size(), successors.size()); !ok) return ok;
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (auto ok = check_same(running[i], successors[i]); !ok) return ok;
  }
  return {};
}

Result<std::unique_ptr<Succession::Turn>> Succession::begin(const message::TakeOver& request, int32_t pid,
                                                            ClientsCheck check) {
  if (host_ == nullptr)
    return fail(EOPNOTSUPP, "this program serves its socket as no daemon does, and hands nothing over");
  if (busy_.exchange(true, std::memory_order_acq_rel)) {
    return fail(EBUSY, fmt::format("{} is taking over from this daemon already; wait for its end, or end it",
                                   process_text(pid_)));
  }
  auto turn = std::make_unique<Turn>(*this, pid, std::move(check));
  pid_ = pid;
  const auto facts = host_->facts();
  if (!facts) return std::unexpected(facts.error());
  if (auto ok = check_same(*facts, request.devices); !ok) return fail(ok.error().code, ok.error().text + kAdvice);
  return turn;
}

Result<EstateVersions> Succession::Turn::prepare(message::SuccessionLink& link) {
  {
    const message::Belongings lent = succession_.host_->lend();
    if (auto whole = lent.complete(); !whole) return std::unexpected(whole.error());
    if (auto sent = link.send_belongings(lent); !sent) return std::unexpected(sent.error());
  }
  const auto ready = link.receive({message::Step::ready}, message::kReadyPatience);
  if (!ready) return std::unexpected(ready.error());
  message::SuccessorVersions successors;
  message::Reader reader(ready->body);
  if (!ready->body.empty()) reader(successors);
  if (!reader.good()) return fail(EPROTO, "the successor's versions do not decode");
  auto versions = common_versions(own_versions(), successors);
  if (!versions) return versions;
  if (auto ok = check_(*versions); !ok) return std::unexpected(ok.error());
  return versions;
}

Error Succession::Turn::run(message::Connection& connection) {
  message::SuccessionLink link(connection);
  const auto versions = prepare(link);
  Error why = versions ? succession_.host_->hand_over(link, pid_, *versions) : versions.error();
  link.fail(why);
  return why;
}

}  // namespace uroce::service
