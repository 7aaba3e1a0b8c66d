#include "service/kept_files.h"

#include <fcntl.h>
#include <sys/stat.h>

namespace uroce::service {

std::shared_ptr<KeptFile> KeptFiles::keep(int fd) {
  struct stat file{};
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fstat(fd, &file) != 0) return nullptr;
  if (files_.size() >= 2 * swept_ + 16) {
    std::erase_if(files_, [](const auto& entry) { return entry.second.expired(); });
    swept_ = files_.size();
  }
  std::weak_ptr<KeptFile>& known = files_[{file.st_dev, file.st_ino, flags & O_ACCMODE}];
  if (auto kept = known.lock()) return kept;
  auto charge = payer_();
  if (!charge) return nullptr;
  message::Fd own(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!own) return nullptr;
  auto kept = std::make_shared<KeptFile>(std::move(own), std::move(*charge));
  known = kept;
  return kept;
}

}  // namespace uroce::service
