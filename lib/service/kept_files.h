// Descriptors of the files behind a client's registered memory. A daemon that takes over maps the memory again, and the
// client does not send it a second time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tuple>

#include <uroce/error.h>

#include "message/connection.h"
#include "service/user.h"

namespace uroce::service {

struct KeptFile {
  message::Fd fd;
  Charge charge;
};

/// A part of a file that a region maps. `file`: null where the user may not have another descriptor.
struct KeptSegment {
  std::shared_ptr<KeptFile> file;
  uint64_t offset = 0;
  uint64_t length = 0;
};

/// One descriptor for each file, as long as a region has it. One thread.
class KeptFiles {
 public:
  /// Charges a descriptor. Errors: those of User::charge().
  using Payer = std::function<Result<Charge>()>;
  explicit KeptFiles(Payer payer) : payer_(std::move(payer)) {}

  /// The file of `fd`, which stays the caller's. Null where there is no descriptor left for it.
  std::shared_ptr<KeptFile> keep(int fd);

 private:
  using Identity = std::tuple<dev_t, ino_t, int>;  // and how it was opened

  const Payer payer_;
  std::map<Identity, std::weak_ptr<KeptFile>> files_;
  std::size_t swept_ = 0;  // entries after the last look for files that are gone
};

}  // namespace uroce::service
