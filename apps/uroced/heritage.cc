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
  if (auto ok = predecessor_->ready(); !ok) return ok;
  if (auto got = server.inherit(predecessor_->link()); !got) return std::unexpected(got.error());
  if (auto ok = predecessor_->bequeathed(); !ok) return ok;
  if (auto ok = predecessor_->imported(); !ok) return ok;
  log.info("took over from process {}, uroced {}", predecessor_->process(), predecessor_->version());
  return {};
}

void Heritage::give_up(const Error& why) {
  if (belongings_) predecessor_->link().fail(why);
}

}  // namespace uroce::daemon
