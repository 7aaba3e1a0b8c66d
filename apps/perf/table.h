// The output on the terminal, in perftest's form.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "perf/endpoint.h"
#include "perf/options.h"
#include "perf/statistics.h"

namespace uroce::perf {

/// The line between the parts of the table.
inline const std::string kRule(87, '-');

/// Lines of the table, without printing them.
std::string test_header(const Options& options, const Endpoint& endpoint, bool client);
std::string column_titles(const Options& options);
std::string result_line(const Options& options, const SizeReport& report);
/// The bandwidth in the unit of the options: MiB/s or Gb/s.
double bandwidth(const Options& options, uint64_t size, double messages_per_second);

/// Prints one side's output during the test.
class Table {
 public:
  Table(const Options& options, bool client);
  void waiting();
  void connected(const Endpoint& endpoint);
  void result(const SizeReport& report);
  /// Call it after the last size.
  void footer();

  void begin_progress();
  /// Prints a line a second on stderr, from the second second on, if that is a terminal or --progress was given.
  void progress(double elapsed_s, uint64_t messages);
  void end_progress();

 private:
  const Options& options_;
  const bool client_;
  const bool shows_progress_;
  const bool terminal_;
  double next_s_ = 2;
  double last_s_ = 0;
  uint64_t last_messages_ = 0;
  uint64_t verified_ = 0;
  bool line_open_ = false;
};

}  // namespace uroce::perf
