#include "uroced/hand_over.h"

#include <chrono>
#include <cstdlib>

#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "pmd_glue/stack_access.h"

namespace uroce::daemon {

namespace {

using Clock = std::chrono::steady_clock;

Result<service::Bequest> bequeath(const SuccessionDesk::Request& request, service::Server& server) {
  message::SuccessionLink& successor = *request.link;
  auto bequest = server.bequeath(successor, request.versions);
  if (!bequest) return bequest;
  if (auto ok = successor.send(message::Step::bequeathed); !ok) return std::unexpected(ok.error());
  if (auto packet = successor.receive({message::Step::imported}, message::kStepPatience); !packet) {
    return std::unexpected(packet.error());
  }
  if (auto ok = successor.send(message::Step::go); !ok) return std::unexpected(ok.error());
  return bequest;
}

}  // namespace

Error hand_over(const SuccessionDesk::Request& successor, service::Server& server, Stack& stack, Log& log) {
  const auto begun = Clock::now();
  if (auto held = server.hold(); !held) return held.error();
  glue::StackAccess::freeze(stack);
  const auto bequest = bequeath(successor, server);
  if (!bequest) {
    glue::StackAccess::thaw(stack);
    server.go_on();
    return bequest.error();
  }
  log.info("handed over to process {}: frozen {} ms, {} queue pairs, {} clients refused", successor.pid,
           std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun).count(), bequest->queue_pairs,
           bequest->refused);
  sd_notifyf(0, "MAINPID=%d", static_cast<int>(successor.pid));
  glue::StackAccess::abandon(stack);
  log.flush();
  // The sockets, their paths and the files are the successor's by now: nothing may be undone.
  _exit(EXIT_SUCCESS);
}

}  // namespace uroce::daemon
