// ports/1/counters and ports/1/hw_counters of each device in the tree.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "daemon_source.h"

namespace uroce::run {

class CounterFiles {
 public:
  /// `source` must outlive this. The files are there at once, where the daemon tells the counters.
  CounterFiles(const std::filesystem::path& tree, const std::vector<DeviceView>& devices, DaemonSource& source);

  /// Writes the values of this moment into the files, in place: a program that has one open may read it again.
  void refresh() const;
  /// The folders that programs list or read on their way to a counter.
  const std::vector<std::filesystem::path>& folders() const { return folders_; }

 private:
  std::filesystem::path classes_;
  std::vector<std::string> devices_;
  std::vector<std::filesystem::path> folders_;
  DaemonSource& source_;
};

}  // namespace uroce::run
