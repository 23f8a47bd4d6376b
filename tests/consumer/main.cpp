#include <deq/deq.h>

#include <iostream>

int main() {
  std::cout << "libdeq " << deq::version() << '\n';
  return 0;
}
