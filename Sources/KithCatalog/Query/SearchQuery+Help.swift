extension SearchQuery {
    /// The language of queries, for a person: lines of at most 79 columns.
    package static let help = """
        Words are all to be found in the name, in any order and in any case. Whatever
        is not listed here is text: report.txt, annual-report, c++, foo(bar), O'Brien.

          annual report       both words                 "annual report"  the phrase
          jpg OR png, a | b   one of them                -draft, NOT draft  without it
          (a OR b) c          parentheses group; OR binds less than words side by side
          *.jpg, IMG_????     * is any text, ? any one character of the whole name;
                              one ? at the end of a word is text
          name:=read.me       the whole name, without wildcards
          name:"my pic"*      a beginning; name:*"end.txt" is an ending
          regex:^IMG_\\d+      a regular expression, found anywhere in the name

          path:photos/2024    a text somewhere in the path
          in:~/docs           in that folder, at any depth; in:docs is any such folder
          kind:image,video    audio document archive code text book font database
                              executable disk model other, folder, link
          ext:jpg,tar.gz      how the name ends
          size:>10M           1M..5M, <=3KiB, 0; K is 1000 bytes and Ki 1024
          modified:today      yesterday, week (from Monday), month, year;
                              also created: and added: (to the library)
          modified:2024-05    a year, month or day; 2024-01..2024-06 takes in both,
                              >2024-01-01 is after that day, >= takes it in
          modified:<7d        in the last 7 days; >1y is longer ago; min h d w mo y
                              (mo is 30 days, y is 365)
          tag:work            with the tags beneath it; tag:=work without them
          is:favorite         hidden empty offline duplicate untagged; file folder link
                              other (a pipe, a socket or a device)
          rating:>=4          0 to 5 stars, 0 for none
          location:photos     the name of a location; device:laptop of a device
          note:"call back"    a text in the note
          content:"net gain"  words in the text of the file, one after the other
          width:>4000         pixels, also height:; duration:>10m 1h30m 90s 1:30:00
          taken:2024-05       when a picture or a film was taken, as modified:
          camera:sony         a text in the camera's name; has:gps, has:text
          sort:-modified,name relevance name path size kind ext modified created
                              added rating; - puts the largest first

        Put text that would mean something else into quotation marks: "-x", "AND",
        "size:9". Within them, two quotation marks are one. The value of a filter may
        be quoted too: tag:"to do".

        Examples:
          invoice 2024 ext:pdf -draft
          kind:image size:>5M modified:<30d sort:-size
          (kind:video OR kind:audio) in:~/Movies is:duplicate
          "annual report" tag:work/clients rating:>=3
        """
}
