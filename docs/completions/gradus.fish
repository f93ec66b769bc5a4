# fish completion for gradus.  Printed by: gradus help --completions fish
function __gradus_complete
    set -l before (commandline -opc)
    set -l word (commandline -ct)
    for line in ($before[1] complete fish (count $before) -- $before "$word" 2>/dev/null)
        if test "$line" = :files
            set -l name (string match -r '^[^@]*@' -- $word)
            __fish_complete_path (string replace -r '^[^@]*@' '' -- $word) | string replace -r '^' -- "$name"
        else
            echo $line
        end
    end
end
complete -c gradus -f -a '(__gradus_complete)'
