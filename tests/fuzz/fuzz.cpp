#include "fuzz/fuzz.h"

#include <sanitizer/allocator_interface.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <system_error>

namespace deq::fuzz {
namespace fs = std::filesystem;
namespace {

// Since the input came; other threads allocate too.
std::atomic<int64_t> allocated{0}, most_allocated{0};
size_t allowed_besides = 0;

void on_malloc(const volatile void* block, size_t /*asked*/) {
  const auto size = static_cast<int64_t>(__sanitizer_get_allocated_size(const_cast<void*>(block)));
  const int64_t now = allocated += size;
  int64_t most = most_allocated;
  while (now > most && !most_allocated.compare_exchange_weak(most, now)) {
  }
}

void on_free(const volatile void* block) {
  if (block == nullptr) return;
  allocated -= static_cast<int64_t>(__sanitizer_get_allocated_size(const_cast<void*>(block)));
}

struct OwnFolder {
  OwnFolder() {
    std::string name = (fs::temp_directory_path() / "deq_fuzz_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category());
    path = name;
  }
  ~OwnFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }

  fs::path path;
};

}  // namespace

void allow(size_t bytes) {
  allowed_besides = std::max(allowed_besides, bytes);
}

void promise(bool kept, const char* what) {
  if (kept) return;
  std::fprintf(stderr, "a promise is broken: %s\n", what);
  std::abort();
}

void require_sentence(const char* message) {
  const std::string_view text(message);
  promise(!text.empty(), "an Error says nothing");
  promise(text.find('\n') == std::string_view::npos, "an Error's message has several lines");
}

const fs::path& folder() {
  static const OwnFolder own;
  return own.path;
}

fs::path put(const std::string& name, std::string_view bytes) {
  const auto path = folder() / name;
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
  return path;
}

std::optional<lab::TensorFile> tensors_in(std::string_view input) {
  std::optional<lab::TensorFile> file;
  const auto path = put("tensors", input);
  attempt([&] { file = lab::read_safetensors(path); });
  return file;
}

}  // namespace deq::fuzz

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  __sanitizer_install_malloc_and_free_hooks(deq::fuzz::on_malloc, deq::fuzz::on_free);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace deq::fuzz;
  allocated = most_allocated = 0;
  allowed_besides = 0;
  attempt([&] { read({reinterpret_cast<const char*>(data), size}); });
  const auto allowed = static_cast<int64_t>(10 * size + kSpareBytes + allowed_besides);
  if (most_allocated > allowed) {
    std::fprintf(stderr, "%lld bytes were held, for %zu of input and %zu that the harness spares\n",
                 static_cast<long long>(most_allocated), size, kSpareBytes + allowed_besides);
  }
  promise(most_allocated <= allowed,
          "more memory than ten times the input and what the harness spares");
  return 0;
}
