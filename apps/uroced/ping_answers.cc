#include "uroced/ping_answers.h"

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "pmd_glue/stack_access.h"

namespace uroce::daemon {

Result<std::unique_ptr<PingAnswers>> PingAnswers::start(Stack& stack, cm::Manager& manager,
                                                        std::set<std::string> devices) {
  const auto open = [&stack](const std::string& device) { return stack.open(device); };
  const auto addresses = [&stack, answering = std::move(devices)] {
    std::vector<Gid> out;
    for (const auto& device : glue::StackAccess::devices(stack)) {
      if (!answering.contains(device->config().name)) continue;
      const std::vector<Gid> gids = device->gids();
      out.insert(out.end(), gids.begin(), gids.end());
    }
    return out;
  };
  auto answerer = ping::Answerer::listen(glue::StackAccess::connection_manager(stack, manager), open, addresses);
  if (!answerer) return std::unexpected(answerer.error());
  const int stop = eventfd(0, EFD_CLOEXEC);
  if (stop < 0) {
    const int code = errno;
    const bool limit = code == EMFILE || code == ENFILE;
    return fail(code, fmt::format("cannot answer pings: eventfd: {}; {}", std::strerror(code),
                                  limit ? "raise the limit of descriptors (LimitNOFILE)"
                                        : "daemon.answer_pings = false starts uroced without answers"));
  }
  return std::unique_ptr<PingAnswers>(new PingAnswers(std::move(*answerer), stop));
}

PingAnswers::PingAnswers(std::unique_ptr<ping::Answerer> answerer, int stop)
    : answerer_(std::move(answerer)), stop_(stop), thread_([this] {
        while (answerer_->serve(stop_, std::chrono::milliseconds(-1))) {
        }
        answerer_.reset();
      }) {}

PingAnswers::~PingAnswers() {
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = write(stop_, &one, sizeof one);
  thread_.join();
  close(stop_);
}

}  // namespace uroce::daemon
