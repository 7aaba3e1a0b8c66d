// XRC domains by the inode that their openers have in common (ibv_open_xrcd(3)).
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>

namespace uroce::control {

class XrcDomain;

/// An inode: st_dev and st_ino of stat(2). The openers of a domain keep it.
struct XrcFile {
  uint64_t device = 0;
  uint64_t inode = 0;
  friend auto operator<=>(const XrcFile&, const XrcFile&) = default;
};

/// Callers hold the control lock.
class XrcFiles {
 public:
  /// nullptr: no domain has the file.
  std::shared_ptr<XrcDomain> find(const XrcFile& file) const {
    const auto found = domains_.find(file);
    return found != domains_.end() ? found->second.lock() : nullptr;
  }
  void add(const XrcFile& file, const std::shared_ptr<XrcDomain>& domain) { domains_[file] = domain; }
  /// The domain that came from another daemon under this number; nullptr: none did.
  std::shared_ptr<XrcDomain> find(uint32_t number) const {
    const auto found = adopted_.find(number);
    return found != adopted_.end() ? found->second.lock() : nullptr;
  }
  void add(uint32_t number, const std::shared_ptr<XrcDomain>& domain) { adopted_[number] = domain; }
  void forget(uint32_t number) { adopted_.erase(number); }
  /// A domain of the file has gone. Another one may have taken its place.
  void forget(const XrcFile& file) {
    const auto found = domains_.find(file);
    if (found != domains_.end() && found->second.expired()) domains_.erase(found);
  }

 private:
  std::map<XrcFile, std::weak_ptr<XrcDomain>> domains_;
  std::map<uint32_t, std::weak_ptr<XrcDomain>> adopted_;
};

}  // namespace uroce::control
