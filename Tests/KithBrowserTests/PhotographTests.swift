import Foundation
import KithContent
import KithTesting
import Testing

@testable import KithBrowser

@Suite struct PhotographTests {
    /// An image of 19 by 13 pixels, and its colours as Pillow 13 decodes it, over the background of the previews.
    struct Vector: Sendable, CustomTestStringConvertible {
        var name: String
        /// By how much a colour may differ from Pillow's, on average: colours of half the size are enlarged otherwise.
        var mean: Double
        var file: String
        var pixels: String
        var testDescription: String { name }
    }

    /// The colours that every lossless kind of file shows.
    private static let colours = """
        BgABCAMMGAAKJwAZNgIkRAAoRQAwXgA7aQBAdABHgwBRkABZnABfqQBnuABxwgB40ACA3QCJ6QCQABEICxcTIxAU\
        JhMeMhgpOBQtVRM0WRc+aRNHdBNPgxNYkBNgnBNmqRNuuBN4whN/0BOH3ROQ6ROXByUQDSocCSgkNiEmLCc0MyQ6\
        WiNCWSdLaSdRdCdYgydikCdpnCdwqSd4uCeBwieI0CeR3Sea6SehADYSDzoaKzwg/SUK/ikN/ycK/yUJ+CcNaTlZ\
        dDlggzlqkDlxnDl4qTmAuDmJwjmQ0DmZ3Tmi6TmpB0snB0wsCFA1/ygN/CoM/ykH/ycD/ygFaUxfdExmg0xwkEx4\
        nEx+qUyGuEyQwkyX0Eyf3Uyo6UyvC18iElwnH2I4/ygH/ykM9ykN/ygN/SoQaV9ndF9ug194kF+AnF+GqV+OuF+X\
        wl+e0F+n3V+w6V+3AHU1CG44HXJK+ykK/yYL/icK/yYI/ykJaXJxdHJ4g3KBkHKJnHKQqXKXuHKhwnKo0HKx3XK5\
        6XLBAog3FH46FIBN/y0J/ScL/yYM8yUL/ycNaYV4dIV/g4WJkIWQnIWXqYWfuIWowoWv0IW43YXB6YXIAJNEGJhE\
        EaFS/x4E9ScG/zQJ/ygL+yYLaZmBdJmIg5mSkJmZnJmgqZmouJmxwpm40JnA3ZnJ6ZnQAbZICqpJJJtS/y0U/ygP\
        8yYR+R8J/ycKaaqJdKqRg6qakKqinKqoqaqwuKq6wqrB0KrI3arR6arZALNMFL1XCcpqLbRbLcZmPMF9Xrt6VMSI\
        ab6QdL6Xg76hkL6pnL6vqb63uL7Bwr7I0L7P3b7Y6b7gAM5dENRmIc9vKNR0Odl3Ps6LVMuAVdGQadKYdNKfg9Kp\
        kNKxnNK3qdK/uNLIwtLP0NLX3dLg6dLnCelbDOxmGNtoJ+F8NuJ+OeGSR+iKaeueaeKhdOKog+KykOK5nOLAqeLI\
        uOLRwuLY0OLg3eLp6eLw
        """

    // All made by Pillow 13.
    static let vectors = [
        Vector(
            name: "JPEG, grey", mean: 0.5,
            file: """
                /9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAYEBQYFBAYGBQYHBwYIChAKCgkJChQODwwQFxQYGBcUFhYaHSUfGhsj\
                HBYWICwgIyYnKSopGR8tMC0oMCUoKSj/wAALCAANABMBAREA/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcI\
                CQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcY\
                GRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKj\
                pKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/9oACAEBAAA/APLN\
                D8JWgtt9wJBJu4CkAY49q6rSfCfT93+ldRF4T/dr+77elalh4dsp9vmqT9CR/I13Ok6LbfLx+ldPFott5a8fpX//\
                2Q==
                """,
            pixels: """
                AAAABQUFBgYGFBQUEBAQHR0dHR0dJSUlJiYmKioqLy8vNDQ0OTk5Pj4+Q0NDR0dHS0tLUlJSV1dXFhYWFxcXExMT\
                Hx8fGRkZIyMjIyMjLS0tMzMzNzc3PDw8QUFBRkZGS0tLUFBQVFRUWFhYX19fZGRkFRUVFBQUFBQUKysrLCwsMzMz\
                MTExPT09Pz8/Q0NDSEhITU1NUlJSV1dXXFxcYGBgZGRka2trcHBwKioqLCwsNzc3XV1dZWVlaWlpYmJia2trSkpK\
                Tk5OU1NTWFhYXV1dYmJiZ2dna2trb29vdnZ2e3t7KysrLy8vPT09ZGRkampqampqXl5eZGRkWFhYW1tbYGBgZWVl\
                ampqcHBwdXV1eHh4fX19hISEiIiIPj4+QkJCSUlJZWVlZmZmaWlpYGBgZ2dnY2NjZmZma2trcXFxdXV1e3t7gICA\
                g4ODiIiIj4+Pk5OTSEhIT09PUlJSZWVlYmJiaWlpZGRkampqb29vcnJyd3d3fX19gYGBh4eHjIyMj4+PlJSUm5ub\
                n5+fUFBQWlpaXV1dampqY2NjampqZGRkZ2dnfHx8f39/hISEiYmJjo6OlJSUmZmZnJycoaGhqKiorKysZGRkZmZm\
                aGhoZ2dnZWVlZWVlZ2dnaWlph4eHi4uLkZGRlpaWmpqanp6epKSkqampra2tsbGxtra2cHBwcHBwb29va2trZWVl\
                YGBgX19fYGBgk5OTmJiYnp6eoqKipqamq6ursbGxtbW1urq6vr6+w8PDe3t7gICAhoaGioqKjo6OkpKSmJiYnJyc\
                oKCgpKSkqqqqr6+vsrKyt7e3vb29wsLCxsbGysrKz8/Pf39/hISEi4uLkJCQlZWVmpqaoaGhpaWlq6ursLCwtra2\
                u7u7vr6+w8PDycnJzc3N0tLS1tbW29vblJSUmJiYnZ2doaGhpKSkqKiora2tsrKytra2u7u7wcHBxcXFycnJzs7O\
                1NTU2NjY3d3d4eHh5ubm
                """),
        Vector(
            name: "JPEG, colours", mean: 0.5,
            file: """
                /9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAUDBAQEAwUEBAQFBQUGBwwIBwcHBw8LCwkMEQ8SEhEPERETFhwXExQa\
                FRERGCEYGh0dHx8fExciJCIeJBweHx7/2wBDAQUFBQcGBw4ICA4eFBEUHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4e\
                Hh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh7/wAARCAANABMDAREAAhEBAxEB/8QAHwAAAQUBAQEBAQEAAAAAAAAA\
                AAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAk\
                M2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKT\
                lJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/8QA\
                HwEAAwEBAQEBAQEBAQAAAAAAAAECAwQFBgcICQoL/8QAtREAAgECBAQDBAcFBAQAAQJ3AAECAxEEBSExBhJBUQdh\
                cRMiMoEIFEKRobHBCSMzUvAVYnLRChYkNOEl8RcYGRomJygpKjU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hp\
                anN0dXZ3eHl6goOEhYaHiImKkpOUlZaXmJmaoqOkpaanqKmqsrO0tba3uLm6wsPExcbHyMnK0tPU1dbX2Nna4uPk\
                5ebn6Onq8vP09fb3+Pn6/9oADAMBAAIRAxEAPwDxvw14H05bPzLpZVlDYAUgDGB6j6189j87r4Sqo00mrX1v5+aP\
                vvDnJsNn2WyxdWck4zcdGraRi+qeuvc7PQvBH3f3P6V9rQxBGVZ/tqdfD4I/dL+57eleksTofdUs/wDcWps6X4U0\
                u42+cjNxjgkfyNfmP1eliGpVI3fqz+PeEfETP8lwzwuBrckG+Zrlg9Wkr3lFvZLrY9E0Lw9ZfLx+lfRUKrPpcqzO\
                rodfD4esvKXjt6V6Marsfc0szq8iP//Z
                """,
            pixels: """
                BgAJGAALFAEhNQAaNQAtMAcZRQ00WwAzZgE9cwJEgQFMjwFVmAFepgFntQFvwQJ2zQCB2gKH5gGPAB0AERgGBxYT\
                LBUPKxMhQRQXWRM3YBQ7ahNIdRNOhBJXkRJfmxNoqBNxuBN7wxN/0hKL3hOR6hKXBx4UHh8aBSEiRickOCY0Ric2\
                VRxTWyBaaCdRdCZWhCdgkCdpmydypyZ5tyaDwiaJ0CaT3Sib6SehAD0gFEEkMzce8CMS/B8N+DIF9CgN/y0KaDlZ\
                czlfgjlmkDlwmTl4pzmAtzmKwjqPzzma2zqh5zqmAEEcCkwmGk4g9i0P/isN+zYL/iIU/yQIaUxgdExmhExvkUx4\
                m01/p0yJt0yQwkyW0Eyg3k2o602uAGU7EmJFHV85/CwQ/SsG/yoB/xwK8ywAaV9ndGBsgl91kF99mV+Hp1+Pt1+Z\
                wl+fz1+n3WCu6V+0DGocEm0yD3Iy9CoG+S4O/ycU/xwr/ykQZ3Nxc3N1g3N+j3SHmnOQpXOYtnKhwXOnznOw23W3\
                6HS9CIU5AIxPDYlL/x8N/yQN8ygH+igZ8C4AaoR5dYR/hYSJkoSRnISaqYSjuISrw4Sx0YS634XC64XHAJdUEphR\
                DKI++iUf/yII/SwD/ykJ/yQNaJqBc5qHgpqNj5mYmZqfppqotpqxwZq3zpq+2pzF55vMALE8Eqw+Lp4w/ysb/yAJ\
                /ykG/yoM+CUQaqqIdaqOhaqYkqmfnampqamxuKq7xam/0arH3avO6qvWBbhaGrpkB8pqJ7xqG8loP8JyV718R8WF\
                ar2Rdb2Xhb2gkr2pnL6wqb27uL3Bw73H0L3Q3b/X6r/dAM9QBtBgHstvLcl4NMt8Rc6GVc+SXM+YadKaddGghNCp\
                kNGxm9G5p9LBuNHLw9HRz9LZ3dLg6dLmAexPB+9dKONuKOd2OeN5Pul/SuqGYuCMauGhdeGnheGwk+G5nOLAqeDJ\
                uOHRw+HX0eHg3eLm6uLt
                """),
        Vector(
            name: "JPEG, progressive", mean: 0.5,
            file: """
                /9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwgJC4nICIs\
                IxwcKDcpLDAxNDQ0Hyc5PTgyPC4zNDL/2wBDAQkJCQwLDBgNDRgyIRwhMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIy\
                MjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjL/wgARCAANABMDAREAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAA\
                BAX/xAAYAQADAQEAAAAAAAAAAAAAAAADBAUBBv/aAAwDAQACEAMQAAABgLUXvY8tBEriarLbyv8A/8QAGxAAAgID\
                AQAAAAAAAAAAAAAAAAIDBAERExT/2gAIAQEAAQUCjrLpKx5hYEyJEpyU/8QAHhEAAQMEAwAAAAAAAAAAAAAAAwAB\
                BAIFERIhQYH/2gAIAQMBAT8BtgKZAt3ftBkJpHCh3OSCnQdWG8QSumK+F//EABoRAAMAAwEAAAAAAAAAAAAAAAAB\
                AgMREjH/2gAIAQIBAT8ByZ6h6RNHRyq9JZs//8QAFRABAQAAAAAAAAAAAAAAAAAAICH/2gAIAQEABj8Cq//EABoQ\
                AAIDAQEAAAAAAAAAAAAAAAABESExEGH/2gAIAQEAAT8hu5yeQqYbK5lEf//aAAwDAQACAAMAAAAQH9x//8QAGxEB\
                AAMBAAMAAAAAAAAAAAAAAQARIVEQQWH/2gAIAQMBAT8QauERlcHj2fWZtmxQ3VLcPY8PBqp//8QAGBEBAQEBAQAA\
                AAAAAAAAAAAAAQAREDH/2gAIAQIBAT8QEiecS6tOyw7/xAAcEAACAgIDAAAAAAAAAAAAAAABEQAhocExgZH/2gAI\
                AQEAAT8QCUF6AIS8nHrK+sSOPZEqViKaxP/Z
                """,
            pixels: """
                BwQAABQCGAcXJAgHIg0KMQkrVAA7XAAwaAA+cQBEfwBNjABWnQBeqwBptwBvwAF1zgOD2gGG6gCMIQ0MBhgsKQg1\
                RQIhPw4hQw89YAlOaA9HahFJchJPfxVXjhRhnhJprBJ0uRJ7wRSAzhWN3BSR6xKVASEWACMrBhswSxMcQigZMy4q\
                Pi01QTsvZyZRbiZUeyheiidomiZxqSV5tSaCvSeIyyqU2CeZ5yadCUwZCEcsQEMw3Sck9DYe8ywl/x4l/yUZZjdX\
                bzldezpkiTlumjd3qTd/tjiJvTmNyzuc2Dmf5zejAEoHAUQYLk4c9SEL/zUA+zAF/iQB+isAbUxhdExmg01tkE14\
                oEyAr0uJu0yRw02X0U+l3k2o7UysAGkrAGE7GGsz/x0U/yoF/ycN/x0S/yUKbl1ndV9sgl9zkV59oF2Gr1yQvF+Y\
                w1+d0WGr3l+u7V2yE2w+I2lPIHtC/xgV/ycC7y0S8yse7TEUanBucnJyfnN7jXKFnHGNqnCWt3KfwHSlzXWx23K1\
                6nC5AIIxEYNIC5Y7/yIK/ykA+isJ/yQW/yQMaoR3coZ9foeGjYaOnYSZrIOhuYWrwYewzoi824a/6oTFAKZWGpRL\
                FJw2/xkf/yMK/xwA2jsA/yUAZ5eBb5iGe5mPipiYmZeiqJeqtpi0vZq6yJvC1pnF5ZfLAKlPHZtJGKA86DUu6jMl\
                /yEf+Ckh/xkkbKmKdKqQgayZkKuin6mrr6m1u6q9w6vDzq3M26zQ66rVEr1TFcFVANhXQLVaMcFgM8NrLct3PsWA\
                bL2SdL+YgL+gj7+pnr6zrb28u77Fwb/KzcLT27/W6r3cD8xYFM9cE9hkI9htNtZ8RdWNX9GdY9SmbNGZdNKegNOn\
                j9KvndG6rNDCuNHLwNPRzNXa2tLd6NHjBONmDuJpLdpvHOd0Nd9+QN2GUduQTuCXbuGgdeOmguOukeK3oOHBr+DK\
                vOLTxOTZz+Xi2+Pm6+Hq
                """),
        Vector(
            name: "JPEG, progressive, restarts", mean: 0.5,
            file: """
                /9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZG\
                NywtQFdBRkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09P\
                T09PT09PT09PT09PT09PT09PT09PT09PT0//wgARCAANABMDAREAAhEBAxEB/8QAFgABAQEAAAAAAAAAAAAAAAAA\
                BAMF/8QAFwEBAQEBAAAAAAAAAAAAAAAAAwQBAv/dAAQAA//aAAwDAQACEAMQAAABzBrTTiUr/9CgQtZ091f/xAAa\
                EAADAQADAAAAAAAAAAAAAAAAAQIDERIT/9oACAEBAAEFAoyXE5Hkf//QWaJhHRH/xAAZEQADAQEBAAAAAAAAAAAA\
                AAAAAQMCBBL/2gAIAQMBAT8B45quPTJ1FU//0OfsrNecsnti2z//xAAaEQACAgMAAAAAAAAAAAAAAAAAAQIRAyEx\
                /9oACAECAQE/AZZXF6Eyz//QpPomWf/EABUQAQEAAAAAAAAAAAAAAAAAABAh/9oACAEBAAY/Aq//0H//xAAbEAAC\
                AgMBAAAAAAAAAAAAAAAAARExECFBYf/aAAgBAQABPyHrJPMWtH//0HbxFAf/2gAMAwEAAgADAAAAEB5//9Cyf//E\
                ABwRAQABBAMAAAAAAAAAAAAAAAERABAhYTFxsf/aAAgBAwEBPxB+jIxjo1uzhr//0MHRM8D6WUKv/8QAGBEBAQAD\
                AAAAAAAAAAAAAAAAAQAQETH/2gAIAQIBAT8Q1TBL/9DtEkK//8QAGRAAAwEBAQAAAAAAAAAAAAAAAAERITFB/9oA\
                CAEBAAE/EEKRK8OAwD//0J8NmMjH/9k=
                """,
            pixels: """
                AAoGIAAHEAAMHAYdMgMvJw09cgBNZQJcZAFBbQRGegZPigVYmANdpgJltQRwvQV0zgGA1wSH4gaMCRIPKwAMGQ0P\
                Mw8bOxIkHx8rTgozOh08aA9JcRFOfhNXjxJemw9lqg9tuRB3whN80g+J3BGP5RKTADkYCicVBjoWVSkeXy4fRjgd\
                XSweSzskayNTdCZYgidikSdpoCNvriJ4uyV/xSeG1yKT3SSZ6CeeAD8hKS0cO0Ed2BYh+Rkh9xwa/xcX/B4bajZa\
                czlhgDtojzpxnjh5rDd+uziIwzuP1Tac3Dqh5zunAF0pB1AiFmgc6SQc/ywY/yoQ/zAN/zAQZkpgb01mfE9ujE53\
                mUt9qEqGtkyOwE6U0Eqh2U2m406sEFM0MUsoImsa/xQU/yII/x4A6zEA/SwFZF9mbWFte2J1imJ9mGCFp16MtWGV\
                vWKbz1+p12Gt4mO0A3VEFG8yAJEh7icS6DMI8ygAwT8D4jIJaHJxcXV4fnd/jXaInHSPqnKXuHOfwnal0nKy2nW3\
                5Xe+DoRQG34+AJ0o/yEa/yYP/x0M/yYR/x4cbH95doKAg4SIkYOQoICXrn+fvYGnxYSu13+73YK/6IPFCZtIAKc/\
                TYMv3ToZ/yAF1zcA0D0A/yQAa5eIdJqNgpuXkZqfn5ekrpasu5i2xJu705jG2pvK5ZzRAqRRAK1MS4pD20U2/yUq\
                /zQl/zEo/ykra6WMc6eRgKmZkaiinqapraWyvKe6xanA1KbK26nO5avUAbVcAMpdBMRdTaVbV6NbJMJhHc1oSL1u\
                aruSc72Ygr+gkb6pnrywrrq4vL3BxL/G07zQ27/V5cHbKL1fDtJkGtVuScN2UcV+M9qKOOCTXtOcatGac9SfgtWp\
                kdWwn9G2rtC/u9PGxNXN09LX2tXc5NfhAOtXAPVeAPVrJuZ5PtyFR96RYdmbhc6haeCgcuOlgeSukOO1nuC8rd/E\
                uuHOw+TT0uHe2uPi5OXp
                """),
        Vector(
            name: "JPEG, restarts", mean: 0.5,
            file: """
                /9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAoHBwgHBgoICAgLCgoLDhgQDg0NDh0VFhEYIx8lJCIfIiEmKzcvJik0\
                KSEiMEExNDk7Pj4+JS5ESUM8SDc9Pjv/2wBDAQoLCw4NDhwQEBw7KCIoOzs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7\
                Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozv/wAARCAANABMDAREAAhEBAxEB/8QAFwAAAwEAAAAAAAAAAAAAAAAA\
                AQUGBP/EACEQAAAFBAMBAQAAAAAAAAAAAAABAgMRBAUSIgYh0TGB/8QAGQEBAAIDAAAAAAAAAAAAAAAABQEGAgQH\
                /8QAIREAAQQBBAMBAAAAAAAAAAAAAQACAwQRBRMhUQYxYYH/3QAEAAL/2gAMAwEAAhEDEQA/AI238fpyZydJRKnq\
                IiAdPckicA3Cf8fqRXqxmc45BxxjoHr6nVHYPmgbZIoq3vq//9AI4/oWgTEivTb3HtbaazUrsZpM/wBMhWNtkhy4\
                Lj+la/fpx7UD8NJz6B5/Qel//9GuorYx14MGOKLq2Xpui2MYF4NkOKcbZfhf/9k=
                """,
            pixels: """
                AAMABAUAIwERCw4THAsVOAggUwEyYQA/bgFCdgNIgwNQkgJZoABgrgBouwBxwwJ31AB/2wCF5AKKHwoZJggiOAEr\
                MgosPQwpSBAtWBA+YxFRaxJKcxNQfxRYjhRhnRFoqw9wuBF6wBN/0g+J2RGO4hSTADgbACocACggNCYlRi8hSC0Y\
                Sy8jUzQyailUcipafitjjSprnChzqiZ6tyiEvymK0SWT2CiX4SqeAEELIiwJRDQSziIe8yoY9CEE8hoF9x0Rajtb\
                cz1hfz5pjT1ynTp6qzmBuDqLwDyQ0jia2Tqg4j2lAFwUGEMOLlcV8Cod/zQT/y0A/ykA/ywHbUpgdktmg01vkEt3\
                oEl+rkiHu0mPw0uV1kef3Uql5kyqAF42KUUvG14r8RIk/x8S/SIC8icH8S0Vbl1ndl5sg2B2kV59oFyFr1uNu1yW\
                w12c2Fup3l2t51+xAHhLNWVLEoVC+x4t/yQV/isN+DAW9jEhbXNxdXV3gnaAkHWIn3KPrnKYunKgwnSm1nKy3XS3\
                5ne8AIkrGX00AKUx9i0Z/ykA/ysA/yUA/x0EaoR5coV/f4eJjYWQm4SYqoOgt4Opv4Wu04K62oXA4ojFF5ZHA6Q9\
                MpEr+iwV/x0H/ycAz0IA/yIAa5aCc5iGgJqPj5mYnpefrZaqupixwpm31JXC25fG5JrNAKhQAK9IIpo50UEp+ygd\
                /yAY8SwZ/xocbaiKdquRhKuYk6qgoamrsKizv6q7xazB1qfL3anP5qzVEbhmCcJkDMpgU6xcT7NbTbphMs5rR8dy\
                a7yRc76XgMCej7+nnrywrby5ur7Bwr/G07rQ273V47/bAM1hCNBlD9dqKdVxN9Z6Vs+IYdOVbNSfaNGYcNOdftSl\
                jdOvm9G3qtG/uNLJwNPN0dDY2NLc4dXjC91eFt5kH+BrDuxzH+d9NuCKVNaWVtqebOOhdOWnguawkOa5oOPAruPJ\
                u+TSxefZ1uHj3OTn5ufs
                """),
        Vector(
            name: "JPEG, colours of half the size", mean: 9,
            file: """
                /9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAUDBAQEAwUEBAQFBQUGBwwIBwcHBw8LCwkMEQ8SEhEPERETFhwXExQa\
                FRERGCEYGh0dHx8fExciJCIeJBweHx7/2wBDAQUFBQcGBw4ICA4eFBEUHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4e\
                Hh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh7/wAARCAANABMDASIAAhEBAxEB/8QAHwAAAQUBAQEBAQEAAAAAAAAA\
                AAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAk\
                M2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKT\
                lJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/8QA\
                HwEAAwEBAQEBAQEBAQAAAAAAAAECAwQFBgcICQoL/8QAtREAAgECBAQDBAcFBAQAAQJ3AAECAxEEBSExBhJBUQdh\
                cRMiMoEIFEKRobHBCSMzUvAVYnLRChYkNOEl8RcYGRomJygpKjU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hp\
                anN0dXZ3eHl6goOEhYaHiImKkpOUlZaXmJmaoqOkpaanqKmqsrO0tba3uLm6wsPExcbHyMnK0tPU1dbX2Nna4uPk\
                5ebn6Onq8vP09fb3+Pn6/9oADAMBAAIRAxEAPwDxvw14H05bPzLpZVlDYAUgDGB6j612eheCPu/uf0r0jS/Cml3G\
                3zkZuMcEj+Rr0TQvD1l8vH6VwZXiq8as5TleLtZdh5R4g4Grg8JTwkJRqxT9o2laT0tazd+u6R5FD4I/dL+57elF\
                fRkPh6y8peO3pRX1Cx7P0SPHFTlWrP/Z
                """,
            pixels: """
                AQIACgcADgcPGAcZIwceMAUhSAwyVAE1awBGewBOhABTjQJVlgVUnQhapQpmtAlzygJ82gOF4QWJCA8AFRULGwwR\
                LxEdPAwcTA0iXhIuag84cw1MfQ1XhhBekRJhnBNhqBVmtRZzwRR90xKJ3xOQ5hWUCR4LHSETLREQWR4iaxIWexIW\
                gBEagBYqeCBIdSVafSlniiluniZusSJ0xSB+0h+H1yOR3ieb5SqfCDQZJTgiSysglkg+tjwvzj8xyjcvwEJDgjFC\
                dTlbeD1thjx5mTh7rzWAxjKI0jGR1jWc2zqi4j2mAEUcGEYhTjQZpk800j8e7ToZ5y4S0zoqkj48ektbfFB0hVCE\
                lE+Go02Kt0ySxUqa0Euk2k+s4lGwAGQwI14wW0Uer08p3zoN+C8D9SUB2jIXm04+fF5efWF6hWKKkWKOoGKVsGOb\
                v2Cizl+r2mGx4mK3AGwwJWQtY0sfr0gf5TkL/ywA/ywG4zwan19Ee3Flf3SCiHWRlHWVonSbsnSjwHOp0XGx4HK5\
                53S/CoQ7Lnk4cVwtskwk6TkQ+yUA/ycH2DMXom9QfIRvgYaJiYiWloeapYehtIaqw4Sx04K64oTC6YbGCJc9L41B\
                dG48qksr3zEZ/ygW/ycb1zUmp39lf5V+gpmPiZubl5qfp5mmuZmxyJa515bB4ZfI6JrMA6pBIaJGV4VFf2c5p08r\
                wUQox0AqpUkwk5l3eKmLhKuYj6ufnaqjq6mquKq3xqjA1KjJ3qrQ563VAMBIEMJSLbpeQ7BfXKpec6tkhqhrf6x1\
                ar6Ka8KYibuinbipq7eps7qytr7AwL7J0L3R3MDZ5MLdAM1NB9FXFtFoIdFvLNFyP9R6VdOCWtKKWdmcZ9enis2s\
                ocmxrcmytM26tdPJv9PS0dHb3dLi49XmEuFfG+NpJeN5L+GBOeGCSOOIV+KPW+KWX+Woa+SxhOC3l9+6o9+7q+DC\
                s+TRvuPb0uDj4ODq5+Tv
                """),
        Vector(
            name: "JPEG, red, green and blue", mean: 0.5,
            file: """
                /9j/7gAOQWRvYmUAZAAAAAAA/9sAQwAGBAUGBQQGBgUGBwcGCAoQCgoJCQoUDg8MEBcUGBgXFBYWGh0lHxobIxwW\
                FiAsICMmJykqKRkfLTAtKDAlKCko/8AAEQgADQATA1IRAEcRAEIRAP/EABkAAQADAQEAAAAAAAAAAAAAAAcABQgE\
                Bv/EADIQAAECBAIFCgcAAAAAAAAAAAIBAwAEBQYRUQchIkGhCBMWFzE0Q2FjcRIUFSMywdH/2gAMA1IARwBCAAA/\
                AOTk06L6LeNlP1ipzVRamWZ45YRl3AEFFG2yRVQgVccTXflAhXbbYpM2DDrI/EQIetPNU/UZ7dccozrQNtNEpAh7\
                aLmqbl8o9RYnhxe9XXo8IebboX4bENUl3Vr2idXXo8IQpehfZDY3RjLQ/fty21SvptEqXy0k46r5t8w0eJqIiq4k\
                Kr2COrHDVGnqzovtqtTQzFSlCeeEEbQkdMNlFVcMBJE7VWCGRs6jVdxtyoSyumgoCLzhDqxx3Kmawx2J4cXXRWRy\
                4Q1W3Tmdj+Q1SXdWvaJ0VkcuEIMvTmeZD2yj/9k=
                """,
            pixels: colours),
        Vector(
            name: "JPEG, a printer's colours", mean: 0.5,
            file: """
                /9j/7gAOQWRvYmUAZAAAAAAA/9sAQwAGBAUGBQQGBgUGBwcGCAoQCgoJCQoUDg8MEBcUGBgXFBYWGh0lHxobIxwW\
                FiAsICMmJykqKRkfLTAtKDAlKCko/8AAFAgADQATBEMRAE0RAFkRAEsRAP/EABkAAQEBAQEBAAAAAAAAAAAAAAcA\
                CAUEBv/EADIQAAEDAgIFCgcBAAAAAAAAAAIAAQMEBQYRISJBUaEHExYXMTRDYWNxCBIUFSMywdH/2gAOBEMATQBZ\
                AEsAAD8A8nw08l9lxjgqe8XOquMVTDXHTCNPIAg4tHGTO7EDvnmb7dyEL7huC01YQSwj8xAx6W83b+LPcsklmliC\
                OKInIGPXZ97tsfyWqV9RgTw13err0eCecN2L9NRSaqLusXsrq69HgkKnsX4Q1NiljLkfx7iXDVq+22S5fTUUkrzn\
                HzER5m4iLvmQu/YI6M8tC09eeS/DV6qhqLlSFNMINGxNKYarO75ZCTN2u6IaHB1mu8kclwpnlNhYGfnCHRnnsdt7\
                qTHgTw12uitDu4Jqw3bodT/FJqou6xeyuitDu4JBp7dDzIe25S//2Q==
                """,
            pixels: colours),
        Vector(
            name: "GIF", mean: 0.5,
            file: """
                R0lGODdhEwANAIMAANDR2JbRtLaruFfNjBLJYL2FrL1fnF58bgd8OP8oCspDmMoThIA4ZnwKUB8oJCcAGCwAAAAA\
                EwANAAAIfgAfCBz4oIHBgwsSKiQo8KBDhQodSJzowCCDiwwgLlAwMYFHjxgvKhhJsuPHBCEZGCA5EoHLkwkOHLho\
                oKZNAy4RwJR54GaBnwVy7pQJtGjQlyd5AhXAlCmBpzAHDAgQoClTAACeapXKlWpVAVixaiXAtavXsGK3lvVKFS2A\
                gAA7
                """,
            pixels: """
                JwAYJwAYJwAYJwAYJwAYJwAYJwAYfApQfApQfApQfApQfApQfApQyhOEyhOEyhOEyhOEyhOEyhOEJwAYJwAYJwAY\
                JwAYJwAYJwAYfApQfApQfApQfApQfApQfApQfApQyhOEyhOEyhOEyhOEyhOEyhOEHygkHygkHygkHygkHygkHygk\
                HygkfApQfApQgDhmgDhmgDhmgDhmyhOEyhOEyhOEyhOEyhOEykOYHygkHygkHygk/ygK/ygK/ygK/ygK/ygKgDhm\
                gDhmgDhmgDhmgDhmykOYykOYykOYykOYykOYykOYHygkHygkHygk/ygK/ygK/ygK/ygK/ygKgDhmgDhmgDhmgDhm\
                gDhmvV+cykOYykOYykOYykOYykOYB3w4B3w4B3w4/ygK/ygK/ygK/ygK/ygKXnxuXnxugDhmgDhmvV+cvV+cvV+c\
                vV+cvV+cvV+cvV+cB3w4B3w4B3w4/ygK/ygK/ygK/ygK/ygKXnxuXnxuXnxuvV+cvV+cvV+cvV+cvYWsvYWsvYWs\
                vYWsB3w4B3w4B3w4/ygK/ygK/ygK/ygK/ygKXnxuXnxuXnxuvYWsvYWsvYWsvYWsvYWsvYWsvYWsvYWsB3w4B3w4\
                B3w4/ygK/ygK/ygK/ygK/ygKXnxuXnxuXnxuvYWsvYWsvYWstqu4tqu4tqu4tqu4tqu4EslgEslgEslg/ygK/ygK\
                /ygK/ygK/ygKV82MV82MltG0ltG0tqu4tqu4tqu4tqu4tqu40NHY0NHYEslgEslgEslgEslgEslgV82MV82MV82M\
                V82MV82MltG0ltG0ltG0tqu4tqu40NHY0NHY0NHY0NHYEslgEslgEslgEslgV82MV82MV82MV82MV82MV82MltG0\
                ltG0ltG0ltG00NHY0NHY0NHY0NHY0NHYEslgEslgEslgEslgV82MV82MV82MV82MV82MltG0ltG0ltG0ltG0ltG0\
                0NHY0NHY0NHY0NHY0NHY
                """),
        Vector(
            name: "GIF, interlaced", mean: 0.5,
            file: """
                R0lGODdhEwANAIcAAOrk8N3k6NDk4OrR6N3R4NDR2MPk2Lbk0MPR0LbRyOq+4N2+2NC+0MO+yLa+wKnkyJzkwI/k\
                uKnRwJzRuI/RsILksILRqKm+uJy+sI++qIK+oOqr2N2r0NCryMOrwLaruKmrsJyrqI+roIKrmG/kpFvkmG/RnFvR\
                kE7kkE7RiEHkiDTkgEHRgDTReHW+mGi+kFu+iHWrkGiriE6+gEG+eDS+cCHkdA3kaCHRbA3RYADkYADRWCe+aBq+\
                YA2+WBqrWA2rUAC+UACrSOqY0N2YyNCYwOSFxNCFuMOYuLaYsMOFsLaFqOpywN1yuNBysMNyqLZyoKOYpI+YmKmF\
                oJyFmI+FkKlymJxykI9yiOpfuN1fsNBfqMNfoLZfmKlfkJxfiI9fgHyYjGiYgIKFiHWFgGiFeHxyfGhycBqYUBqF\
                SBpyQIJfeHVfcGhfaBpfOA2YSACYQA2FQACFOA1yOAByMA1fMABfKP8oCuRMrNBMoOo5qN05oNA5mMNMmMM5kLZM\
                kKlMiLY5iKk5gOQmnNAmkOoTmN0TkNATiMMdhLYmgKkmeLYTeKkTcOoAkN0AiNAAgMMAeLYAcKkAaJxMgI9MeIJM\
                cJw5eI85cII5aHVMaGhMYHU5YGg5WJwmcI8maIImYHUmWGgmUFsmSJwTaI8TYIITWJYAXIIAUHUTUHUASGgTSFsT\
                QGgAQFsAOBpMMBo5KE4mQEEmODQmMCcmKBomIA1MKABMIAc5HA0mGAAmEE4TOEETMDQTKCcTIBoTGA0TEAATCE4A\
                MEEAKDQAICcAGBoAEA0ACAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\
                AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\
                AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACwAAAAAEwANAAAI\
                /gCPGStGbJiwYK1YpTplypSkSJAeOWoE7JevXrx26VqlClUpUqMYLUJ0yFChXLhozZIVC5aoUKA+eeqkKBEiQoMG\
                3br16o5Pn5w2YbpkSVAgP3z26LFVy9VPn5oyVaI0CdCfPnnw4LFTx83TO23YrAHzxUsXLlu0ZKEzR83XM2bMYLli\
                BcoTJ02YyImT5msZMmOqUJmyRMkRI0bgvEHzVUyYMFKiREmCpAiRIUKA/PgqI8YIESFAfPDQgcOGID568KhBYwaM\
                Fy40ZMBwwUEDBgsU7MiBA0cLFilOmDBhgcIECQkQFCAwQMcNGzZWqEBRggSJChEgPDhgQEAAAAEBADs=
                """,
            pixels: """
                AAAADQAIGgAQJwAYNAAgQQAoTgAwWwA4aABAdQBIggBQlgBclgBcqQBotgBwwwB40ACA3QCI6gCQABMIDRMQGhMY\
                JxMgNBMoQRMwThM4WxNAaBNIdRNQghNYjxNgnBNoqRNwthN4wx2E0BOI3ROQ6hOYACYQDSYYGiYgJyYoNCYwQSY4\
                TiZAWyZIaCZQdSZYgiZgjyZonCZwqSZ4tiaAwx2E0CaQ5Cac5CacBzkcBzkcGjko/ygK/ygK/ygK/ygK/ygKaDlY\
                dTlggjlojzlwnDl4qTmAtjmIwzmQ0DmY3Tmg6jmoAEwgDUwoGkww/ygK/ygK/ygK/ygK/ygKaExgdUxogkxwj0x4\
                nEyAqUyItkyQw0yY0Eyg5Eys5EysAF8oDV8wGl84/ygK/ygK/ygK/ygK/ygKaF9odV9wgl94j1+AnF+IqV+Qtl+Y\
                w1+g0F+o3V+w6l+4AHIwDXI4GnJA/ygK/ygK/ygK/ygK/ygKaHJwfHJ8fHJ8j3KInHKQqXKYtnKgw3Ko0HKw3XK4\
                6nLAAIU4DYVAGoVI/ygK/ygK/ygK/ygK/ygKaIV4dYWAgoWIj4WQnIWYqYWgtoWow4Ww0IW45IXE5IXEAJhADZhI\
                GphQ/ygK/ygK/ygK/ygK/ygKaJiAfJiMfJiMj5iYo5iko5iktpiww5i40JjA3ZjI6pjQAKtIDatQGqtY/ygK/ygK\
                /ygK/ygK/ygKaKuIdauQgquYj6ugnKuoqauwtqu4w6vA0KvI3avQ6qvYAL5QDb5YGr5gJ75oNL5wQb54Tr6AW76I\
                aL6Qdb6Ygr6gj76onL6wqb64tr7Aw77I0L7Q3b7Y6r7gANFYDdFgIdFsIdFsNNF4QdGATtGIW9GQb9Gcb9GcgtGo\
                j9GwnNG4qdHAttHIw9HQ0NHY3dHg6tHoAORgDeRoIeR0IeR0NOSAQeSITuSQW+SYb+Skb+SkguSwj+S4nOTAqeTI\
                tuTQw+TY0OTg3eTo6uTw
                """),
        Vector(
            name: "GIF, partly clear", mean: 0.5,
            file: """
                R0lGODlhEwANAIMAANDR2JbRtLaruFfNjBLJYL2FrL1fnF58bgd8OP8oCspDmMoThIA4ZnwKUB8oJCcAGCH5BAEA\
                AAMALAAAAAATAA0AAAh+AB8IHPiggcGDCxIqJCjwoEOFCh1InOjAIIOLDCAuUDAxgUePGC8qGEmy48cEIRkYIDkS\
                gcuTCQ4cuGigpk0DLhHAlHngZoGfBXLulAm0aNCXJ3kCFcCUKYGnMAcMCBCgKVMAAJ5qlcqValUBWLFqJcC1q9ew\
                YreW9UoVLYCAADs=
                """,
            pixels: """
                JwAYJwAYJwAYJwAYJwAYJwAYJwAYfApQfApQfApQfApQfApQfApQyhOEyhOEyhOEyhOEyhOEyhOEJwAYJwAYJwAY\
                JwAYJwAYJwAYfApQfApQfApQfApQfApQfApQfApQyhOEyhOEyhOEyhOEyhOEyhOEHygkHygkHygkHygkHygkHygk\
                HygkfApQfApQgDhmgDhmgDhmgDhmyhOEyhOEyhOEyhOEyhOEykOYHygkHygkHygk/ygK/ygK/ygK/ygK/ygKgDhm\
                gDhmgDhmgDhmgDhmykOYykOYykOYykOYykOYykOYHygkHygkHygk/ygK/ygK/ygK/ygK/ygKgDhmgDhmgDhmgDhm\
                gDhmvV+cykOYykOYykOYykOYykOYB3w4B3w4B3w4/ygK/ygK/ygK/ygK/ygKXnxuXnxugDhmgDhmvV+cvV+cvV+c\
                vV+cvV+cvV+cvV+cB3w4B3w4B3w4/ygK/ygK/ygK/ygK/ygKXnxuXnxuXnxuvV+cvV+cvV+cvV+cvYWsvYWsvYWs\
                vYWsB3w4B3w4B3w4/ygK/ygK/ygK/ygK/ygKXnxuXnxuXnxuvYWsvYWsvYWsvYWsvYWsvYWsvYWsvYWsB3w4B3w4\
                B3w4/ygK/ygK/ygK/ygK/ygKXnxuXnxuXnxuvYWsvYWsvYWstqu4tqu4tqu4tqu4tqu4EslgEslgEslg/ygK/ygK\
                /ygK/ygK/ygKICAgICAgltG0ltG0tqu4tqu4tqu4tqu4tqu40NHY0NHYEslgEslgEslgEslgEslgICAgICAgICAg\
                ICAgICAgltG0ltG0ltG0tqu4tqu40NHY0NHY0NHY0NHYEslgEslgEslgEslgICAgICAgICAgICAgICAgICAgltG0\
                ltG0ltG0ltG00NHY0NHY0NHY0NHY0NHYEslgEslgEslgEslgICAgICAgICAgICAgICAgltG0ltG0ltG0ltG0ltG0\
                0NHY0NHY0NHY0NHY0NHY
                """),
    ]

    private func bytes(_ text: String) throws -> [UInt8] { [UInt8](try #require(Data(base64Encoded: text))) }

    private func decode(_ file: [UInt8], fullLimit: Int = JPEGImage.fullLimit) throws(ImageFailure) -> Picture {
        file[0] == 0xFF ? try JPEGImage.decode(file, fullLimit: fullLimit) : try GIFImage.decode(file)
    }

    @Test(arguments: vectors) func `every kind of JPEG and GIF is decoded as another decoder does`(vector: Vector)
        throws
    {
        let picture = try decode(try bytes(vector.file))
        let expected = try bytes(vector.pixels)
        #expect((picture.width, picture.height) == (19, 13))
        let differences = zip(picture.pixels, expected).map { abs(Int($0) - Int($1)) }
        #expect(differences.count == expected.count)
        #expect(Double(differences.reduce(0, +)) / Double(differences.count) <= vector.mean)
    }

    @Test func `of a large JPEG the mean of each block is the picture`() throws {
        for vector in Self.vectors where vector.name.hasPrefix("JPEG") && vector.mean < 1 {
            let file = try bytes(vector.file)
            let (whole, small) = (try decode(file), try decode(file, fullLimit: 0))
            #expect((small.width, small.height) == (3, 2))
            for part in 0..<3 {
                // The first block is whole: its mean is that of its samples, but for what was cut off at 0 and 255.
                let sum = (0..<64).reduce(0) { $0 + Int(whole.pixels[($1 / 8 * 19 + $1 % 8) * 3 + part]) }
                #expect(abs(sum / 64 - Int(small.pixels[part])) <= 3, "\(vector.name)")
            }
        }
    }

    @Test(arguments: vectors) func `one that is damaged or cut is none or another, and does no harm`(vector: Vector)
        throws
    {
        let file = try bytes(vector.file)
        var random = SeededRandom(seed: 11)
        for round in 0..<400 {
            var damaged = file
            for _ in 0..<Int.random(in: 1...5, using: &random) {
                damaged[Int.random(in: 3..<file.count, using: &random)] = .random(in: 0...255, using: &random)
            }
            if Bool.random(using: &random) { damaged.removeLast(.random(in: 0..<file.count - 8, using: &random)) }
            // Where its size is damaged it may become a large one, which takes its time here.
            if let header = ImageHeader(damaged), header.width * header.height > 1 << 20 { continue }
            let picture = try? decode(damaged, fullLimit: round.isMultiple(of: 2) ? 0 : JPEGImage.fullLimit)
            if let picture { #expect(picture.pixels.count == picture.width * picture.height * 3) }
        }
    }

    @Test func `what would take much room or time is refused before it does`() throws {
        // 65,500 by 65,500 pixels.
        var gif = try bytes(Self.vectors[8].file)
        gif.replaceSubrange(6..<10, with: [0xDC, 0xFF, 0xDC, 0xFF])
        #expect(throws: ImageFailure.tooLarge) { try GIFImage.decode(gif) }
        var jpeg = try bytes(Self.vectors[0].file)
        let frame = try #require(jpeg.indices.first { jpeg[$0] == 0xFF && jpeg[$0 + 1] == 0xC0 })
        jpeg.replaceSubrange(frame + 5..<frame + 9, with: [0xFF, 0xDC, 0xFF, 0xDC])
        #expect(throws: ImageFailure.tooLarge) { try JPEGImage.decode(jpeg) }
        // Arithmetic coding and twelve bits are for nobody.
        jpeg = try bytes(Self.vectors[0].file)
        jpeg[frame + 1] = 0xC9
        #expect(throws: ImageFailure.unknownKind) { try JPEGImage.decode(jpeg) }
        jpeg[frame + 1] = 0xC1
        jpeg[frame + 4] = 12
        #expect(throws: ImageFailure.unknownKind) { try JPEGImage.decode(jpeg) }
        // A scan again and again.
        var bomb: [UInt8] = [0xFF, 0xD8, 0xFF, 0xC2, 0, 11, 8, 8, 0, 16, 0, 1, 1, 0x11, 0]
        bomb += [0xFF, 0xDB, 0, 67, 0] + [UInt8](repeating: 1, count: 64)
        // A code of one bit for the end of very many bands.
        bomb += [0xFF, 0xC4, 0, 20, 0x10, 1] + [UInt8](repeating: 0, count: 15) + [0xE0]
        let scan = [0xFF, 0xDA, 0, 8, 1, 1, 0, 1, 63, 0] + [UInt8](repeating: 0, count: 64)
        // 4,096 by 2,048 pixels: of so many only the means are decoded, and a scan without any is not looked at.
        #expect(throws: Never.self) { try JPEGImage.decode(bomb + scan) }
        for _ in 0..<300 { bomb += scan }
        #expect(throws: ImageFailure.tooLarge) { try JPEGImage.decode(bomb) }
    }

    @Test func `a preview shows them, and says what it cannot show`() throws {
        for vector in Self.vectors {
            let file = try bytes(vector.file)
            guard case .picture(let picture, let about) = Preview(bytes: file, size: UInt64(file.count)) else {
                Issue.record("\(vector.name) is not shown")
                continue
            }
            #expect(picture.width == 19 && about.hasSuffix("image, 19 × 13"))
        }
        // A camera's JPEG says its size behind a small picture: it is fetched whole, too.
        let photograph = [0xFF, 0xD8, 0xFF, 0xE1, 0x7F, 0xFF] + [UInt8](repeating: 0, count: Preview.headSize - 6)
        #expect(Preview.wantsWhole(photograph, size: 5_000_000) && !Preview.wantsWhole(photograph, size: 50_000_000))
        let lossy = Array("RIFF\0\0\0\0WEBPVP8 \0\0\0\0".utf8) + [0, 0, 0, 0x9D, 1, 0x2A, 0x40, 1, 0xC8, 0]
        #expect(Preview(bytes: lossy, size: UInt64(lossy.count)) == .bytes(lossy, about: "WebP image, 320 × 200"))
    }
}
