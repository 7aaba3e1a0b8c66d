#include <fmt/format.h>

#include <cerrno>

#include "uroce/explain.h"

namespace uroce::cli {

Result<void> run_explain(const Options& o) {
  auto rows = fetch_history(o.source, history_of(o.subject));
  if (!rows) return std::unexpected(rows.error());
  if (rows->empty() && !o.subject.empty()) {
    return fail(ENOENT, fmt::format("the daemon knows nothing of {}; name a queue pair as 0x11 (`uroce show qp`), a "
                                    "process by its number, or a program; it keeps what happened to recent "
                                    "programs since it started",
                                    o.subject));
  }
  // Without a subject, programs of which nothing went wrong are no news.
  if (o.subject.empty()) {
    std::erase_if(*rows, [](const message::HistoryRow& row) { return !row.trouble; });
  }
  if (o.json) {
    fmt::print("{}\n", explanation_json(*rows));
  } else {
    fmt::print("{}", rows->empty() ? "Nothing went wrong since the daemon started.\n" : explanation(*rows));
  }
  return {};
}

}  // namespace uroce::cli
