#include "uroced/heritage.h"

#include <utility>

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

Result<void> Heritage::take_over(service::Server& server, Log& log) {
  auto taken = take(server, log);
  if (taken || !of_ended()) return taken;
  log.error("{}; clients of the uroced before end", taken.error().text);
  return {};
}

Result<void> Heritage::take(service::Server& server, Log& log) {
  if (auto ok = predecessor_->ready(); !ok) return ok;
  const auto got = server.inherit(predecessor_->link());
  if (!got) return std::unexpected(got.error());
  const auto since = predecessor_->bequeathed();
  if (!since) return std::unexpected(since.error());
  if (auto ok = predecessor_->imported(); !ok) return ok;
  log.info("took over from {}, uroced {}: frozen {} ms, {} queue pairs, {} clients refused",
           service::process_text(predecessor_->process()), predecessor_->version(),
           (message::now_for_both_ns() - since->at_ns) / 1'000'000, got->queue_pairs, got->refused + since->refused);
  return {};
}

void Heritage::give_up(const Error& why) {
  if (belongings_ && !of_ended()) predecessor_->link().fail(why);
}

}  // namespace uroce::daemon
