#include "uroced/heritage.h"

#include <utility>

#include <unistd.h>

#include "hugepages/heap.h"

namespace uroce::daemon {

Result<Heritage> Heritage::find(const std::string& socket) {
  auto predecessor = service::Predecessor::find(socket);
  if (!predecessor) return std::unexpected(predecessor.error());
  return Heritage(socket, std::move(*predecessor));
}

Result<message::Belongings*> Heritage::ask(std::vector<message::DeviceFacts> facts) {
  auto belongings = predecessor_->take_over(std::move(facts));
  if (!belongings) return std::unexpected(belongings.error());
  belongings_ = std::make_shared<message::Belongings>(std::move(*belongings));
  return belongings_.get();
}

Result<TakenOver> Heritage::take_over(service::Server& server, Log& log) {
  auto taken = take(server);
  if (!taken && !of_ended()) return taken;
  if (!taken) {
    log.error("{}; clients of the uroced before end", taken.error().text);
    return TakenOver{.process = predecessor_->process(), .version = predecessor_->version()};
  }
  log.info("took over from {}, uroced {}: frozen {} ms, {} queue pairs, {} clients refused",
           service::process_text(taken->process), taken->version, taken->frozen_ms, taken->queue_pairs, taken->refused);
  return taken;
}

Result<TakenOver> Heritage::take(service::Server& server) {
  if (!of_ended()) {
    // Queue pairs will need here what they need there.
    reserve_ = std::make_unique<hugepages::HeapReserve>(
        hugepages::anonymous_bytes_beyond(hugepages::anonymous_bytes(getpid()), predecessor_->process()));
  }
  if (auto ok = predecessor_->ready(); !ok) return std::unexpected(ok.error());
  const auto got = server.inherit(predecessor_->link());
  if (!got) return std::unexpected(got.error());
  const auto since = predecessor_->bequeathed();
  if (!since) return std::unexpected(since.error());
  if (auto ok = predecessor_->imported(); !ok) return std::unexpected(ok.error());
  const int64_t now_ns = message::now_for_both_ns();
  return TakenOver{.process = predecessor_->process(),
                   .version = predecessor_->version(),
                   .at_ns = now_ns,
                   .frozen_ms = (now_ns - since->at_ns) / 1'000'000,
                   .queue_pairs = got->queue_pairs,
                   .refused = got->refused + since->refused};
}

void Heritage::give_up(const Error& why) {
  if (belongings_ && !of_ended()) predecessor_->link().fail(why);
}

}  // namespace uroce::daemon
