#include "uroced/hand_over.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <uroce/version.h>

#include "pmd_glue/stack_access.h"

namespace uroce::daemon {

namespace {

using message::Step;

/// Of the socket whose queue holds everything until the next run reads it. The kernel allows net.core.wmem_max.
constexpr int kQueueBytes = 8 << 20;
/// To write into that queue, which nobody reads meanwhile.
constexpr std::chrono::milliseconds kRoomInQueue{200};

Result<service::Bequest> bequeath(message::SuccessionLink& successor, service::Server& server,
                                  message::StandingSince since) {
  auto bequest = server.bequeath(successor);
  if (!bequest) return bequest;
  since.refused = bequest->refused;
  std::vector<std::byte> body;
  message::encode(body, since);
  if (auto ok = successor.send(Step::bequeathed, body); !ok) return std::unexpected(ok.error());
  return bequest;
}

/// Everything stands still between the two halves of `pass`, and goes on where it fails.
template <class Pass>
Result<service::Bequest> while_standing(service::Server& server, Stack& stack, const service::EstateVersions& versions,
                                        const Pass& pass) {
  if (auto held = server.hold(versions); !held) return std::unexpected(held.error());
  const message::StandingSince since{.at_ns = message::now_for_both_ns()};
  glue::StackAccess::freeze(stack);
  auto passed = pass(since);
  if (passed) return passed;
  glue::StackAccess::thaw(stack);
  server.go_on();
  return passed;
}

/// The sockets, their paths and the files are the successor's by now: nothing may be undone.
[[noreturn]] void end(Stack& stack, Log& log) {
  glue::StackAccess::abandon(stack);
  log.flush();
  _exit(EXIT_SUCCESS);
}

/// The versions that were written, where the successor's release is older.
std::string if_older(const service::EstateVersions& versions) {
  const service::EstateVersions newest;
  if (versions.estate == newest.estate && versions.snapshot == newest.snapshot) return {};
  return fmt::format("; it is of an older release and got version {} of the estate, {} of snapshots", versions.estate,
                     versions.snapshot);
}

Result<void> pass_first(message::SuccessionLink& next, const Stack& stack, const message::Belongings& lent) {
  const auto facts = glue::StackAccess::facts(stack);
  if (!facts) return std::unexpected(facts.error());
  if (auto whole = lent.complete(); !whole) return whole;
  std::vector<std::byte> body;
  message::encode(body, message::TakeOver{.version = kVersion, .devices = *facts});
  if (auto sent = next.send(Step::facts, body); !sent) return sent;
  return next.send_belongings(lent);
}

}  // namespace

Result<Legacy> Legacy::begin() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return fail(errno, fmt::format("socketpair: {}", std::strerror(errno)));
  }
  setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &kQueueBytes, sizeof kQueueBytes);
  auto writer = std::make_unique<message::Connection>(message::Fd(ends[0]));
  writer->set_timeouts(std::chrono::milliseconds(0), kRoomInQueue);
  return Legacy(std::move(writer), message::Fd(ends[1]));
}

Result<void> Legacy::pass_to(ServiceManager& manager) {
  if (auto ok = next_.send(Step::go); !ok) return ok;
  return manager.keep(reader_.get());
}

void Legacy::take_back() {
  message::Connection drained{message::Fd(dup(reader_.get()))};
  while (drained.receive_now().value_or(std::nullopt)) {
  }
}

Error hand_over(const SuccessionDesk::Request& successor, service::Server& server, Stack& stack,
                ServiceManager& manager, Log& log) {
  message::SuccessionLink& link = *successor.link;
  int64_t begun_ns = 0;
  const auto bequest = while_standing(server, stack, successor.versions, [&](const message::StandingSince& since) {
    begun_ns = since.at_ns;
    auto passed = bequeath(link, server, since);
    if (!passed) return passed;
    if (auto packet = link.receive({Step::imported}, message::kStepPatience); !packet) {
      return Result<service::Bequest>(std::unexpected(packet.error()));
    }
    if (auto ok = link.send(Step::go); !ok) return Result<service::Bequest>(std::unexpected(ok.error()));
    return passed;
  });
  if (!bequest) return bequest.error();
  log.info("handed over to {}: frozen {} ms, {} queue pairs, {} clients refused{}",
           service::process_text(successor.pid), (message::now_for_both_ns() - begun_ns) / 1'000'000,
           bequest->queue_pairs, bequest->refused, if_older(successor.versions));
  manager.main_process(successor.pid);
  end(stack, log);
}

Error leave(service::Server& server, Stack& stack, const std::function<message::Belongings()>& lend,
            ServiceManager& manager, Log& log) {
  auto legacy = Legacy::begin();
  if (!legacy) return legacy.error();
  if (auto ok = pass_first(legacy->next(), stack, lend()); !ok) return ok.error();
  const auto bequest = while_standing(server, stack, {}, [&](const message::StandingSince& since) {
    auto passed = bequeath(legacy->next(), server, since);
    if (!passed) return passed;
    if (auto ok = legacy->pass_to(manager); !ok) {
      // The clients' sockets are in the queue, and it may be the service manager's by now.
      manager.forget();
      legacy->take_back();
      return Result<service::Bequest>(std::unexpected(ok.error()));
    }
    return passed;
  });
  if (!bequest) return bequest.error();
  manager.stopping();
  log.info("SIGTERM: the service manager keeps {} queue pairs for the next uroced, {} clients refused",
           bequest->queue_pairs, bequest->refused);
  end(stack, log);
}

void leave_after_crash(Legacy& legacy, service::Server& server, Stack& stack,
                       const std::function<message::Belongings()>& lend, ServiceManager& manager, Log& log) {
  const message::StandingSince since{.at_ns = message::now_for_both_ns()};
  const std::size_t unknown = server.outlive_threads();
  auto passed = pass_first(legacy.next(), stack, lend());
  const auto bequest = passed ? bequeath(legacy.next(), server, since) : std::unexpected(passed.error());
  if (bequest) passed = legacy.pass_to(manager);
  if (!bequest || !passed) {
    return log.error("the daemon has died, and its clients end: {}",
                     bequest ? passed.error().text : bequest.error().text);
  }
  log.error(
      "the daemon has died: the service manager keeps {} queue pairs for the next uroced, {} of them in error "
      "because an engine was at work on them, {} clients refused",
      bequest->queue_pairs, unknown, bequest->refused);
}

}  // namespace uroce::daemon
