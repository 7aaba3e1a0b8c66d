// The uids that a user may map into user namespaces: /etc/subuid (subuid(5)). One person has 65,536 of them and more,
// and is one user all the same.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace uroce::service {

/// The budget that subordinate uids have a part of.
enum class SubordinatesAre : uint8_t {
  charged_to_owner,
  /// Each range is a user, known by its first uid. So is each kTenant of a longer range: container engines give a
  /// container so many.
  tenants,
};

/// One thread.
class Subordinates {
 public:
  static constexpr uint32_t kTenant = 65536;
  /// Later lines of the file are not read.
  static constexpr std::size_t kMostRanges = 16384;

  /// The uid of a user's name, or nothing.
  using FindUid = std::function<std::optional<uint32_t>(const std::string& name)>;
  explicit Subordinates(std::string path = "/etc/subuid", FindUid find = uid_of_name);

  /// The uid that `uid` counts as; itself where it is in no range. Reads the file again where it has changed.
  uint32_t user_of(uint32_t uid, SubordinatesAre are);

  /// getpwnam(3).
  static std::optional<uint32_t> uid_of_name(const std::string& name);

 private:
  struct Range {
    std::string name;  // of the owner, or its uid
    uint32_t first, count;
    std::optional<uint32_t> owner;  // once it was asked for
  };
  void look();
  void read();
  uint32_t owner_of(Range& range) const;

  const std::string path_;
  const FindUid find_;
  timespec changed_{};
  ino_t inode_ = 0;
  off_t size_ = 0;
  std::vector<Range> ranges_;
};

}  // namespace uroce::service
